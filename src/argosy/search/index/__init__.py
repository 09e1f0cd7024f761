"""One repository's index, from its files to arrays that kernels search.

Reading order: `segment` and `index` are the nouns; `build` reads a source, `ordering` and `renewal` decide what goes
where, `assembly` joins documents with `texts`, `postings` and `marks`; `sections` lists the arrays for those who weigh
(`accounting`), check (`checking`, `soundness`) and send (`wire`) them; `look` reads back.
"""
