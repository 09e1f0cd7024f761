"""Grammars of formats with named sections: Markdown, Make, SQL, Terraform, CMake, TOML and INI sections, Dockerfile
stages."""

from argosy.search.symbols import lexical_rules
from argosy.search.symbols.grammar import Grammar, Nest, grammar

_HEADINGS = ("chapter", "section", "subsection", "heading")

MARKDOWN = grammar(
    # Fenced code is skipped, because a comment in a shell script looks like a heading.
    (rb"(?s:^[ ]{0,3}```.*?^[ ]{0,3}```)",),
    (rb"(?s:^[ ]{0,3}~~~.*?^[ ]{0,3}~~~)",),
    (rb"^[ ]{0,3}#[ \t]+([^\n]*?[^\s#])[ \t#]*\r?$", "chapter"),
    (rb"^[ ]{0,3}##[ \t]+([^\n]*?[^\s#])[ \t#]*\r?$", "section"),
    (rb"^[ ]{0,3}###[ \t]+([^\n]*?[^\s#])[ \t#]*\r?$", "subsection"),
    (rb"^[ ]{0,3}####+[ \t]+([^\n]*?[^\s#])[ \t#]*\r?$", "heading"),
    (rb"^([^\s#>|*-][^\n]*?)[ \t\r]*\n={3,}[ \t\r]*$", "chapter"),
    (rb"^([^\s#>|*-][^\n]*?)[ \t\r]*\n-{3,}[ \t\r]*$", "section"),
    nest=Nest.LEVELS, levels=_HEADINGS,
)  # fmt: skip

MAKEFILE = grammar(
    (rb"^define[ \t]+([\w.-]+)", "macro"),
    # Special targets list names that are defined elsewhere. `\x25` below is the percent sign, which would stand for a
    # name.
    (rb"^\.(?:PHONY|SUFFIXES|DEFAULT|PRECIOUS|SECONDARY|SILENT|NOTPARALLEL|DELETE_ON_ERROR)\b[^\n]*",),
    (rb"^(?:export[ \t]+|override[ \t]+)*([\w.-]+)[ \t]*(?:[:?+!]|::)?=", "variable"),
    (rb"^([\w./\x25-]+)(?:[ \t]+[\w./\x25-]+)*[ \t]*::?(?:[^=:]|$)", "target"),
)

_SQL_NAME = rb"(?:[`\"\[]?\w+[`\"\]]?\.)*[`\"\[]?(\w+)"
# SQL keywords are written in either case.
_CREATE = (
    rb"(?i:^\s*create\s+(?:or\s+replace\s+|or\s+alter\s+)?"
    rb"(?:temp(?:orary)?\s+|global\s+|unlogged\s+|external\s+)*"
)
_EXISTS = rb"\s+(?:if\s+not\s+exists\s+)?"


def _create_statement(what: bytes) -> bytes:
    return _CREATE + what + _EXISTS + _SQL_NAME + rb")"


SQL = grammar(
    (_create_statement(rb"table"), "table"),
    (_create_statement(rb"(?:materialized\s+)?view"), "view"),
    (_create_statement(rb"(?:aggregate\s+)?function"), "function"),
    (_create_statement(rb"proc(?:edure)?"), "procedure"),
    (_create_statement(rb"(?:constraint\s+)?trigger"), "trigger"),
    (_create_statement(rb"(?:unique\s+|clustered\s+|nonclustered\s+)*index(?:\s+concurrently)?"), "index"),
    (_create_statement(rb"(?:type|domain)"), "type"),
    (_create_statement(rb"schema"), "namespace"),
    (_create_statement(rb"sequence"), "other"),
    lexical=lexical_rules.SQL,
)

TERRAFORM = grammar(
    (rb"^[ \t]*resource[ \t]+\"[^\"\n]*\"[ \t]+\"([^\"\n]+)\"", "resource"),
    (rb"^[ \t]*data[ \t]+\"[^\"\n]*\"[ \t]+\"([^\"\n]+)\"", "data source"),
    (rb"^[ \t]*variable[ \t]+\"([^\"\n]+)\"", "variable"),
    (rb"^[ \t]*output[ \t]+\"([^\"\n]+)\"", "output"),
    (rb"^[ \t]*module[ \t]+\"([^\"\n]+)\"", "module"),
    (rb"^[ \t]*provider[ \t]+\"([^\"\n]+)\"", "namespace"),
    lexical=lexical_rules.TERRAFORM,
)

CMAKE = grammar(
    (rb"(?i:^[ \t]*function[ \t]*\([ \t]*([\w.-]+))", "function"),
    (rb"(?i:^[ \t]*macro[ \t]*\([ \t]*([\w.-]+))", "macro"),
    (rb"(?i:^[ \t]*(?:add_executable|add_library|add_custom_target)[ \t]*\([ \t]*([\w.:-]+))", "target"),
    (rb"(?i:^[ \t]*(?:set|option)[ \t]*\([ \t]*([\w.-]+))", "variable"),
    lexical=lexical_rules.SHELL,
)

DOCKERFILE = grammar(
    (rb"(?i:^FROM[ \t]+\S+[ \t]+AS[ \t]+)([\w.-]+)", "target"),
    (rb"(?i:^(?:ARG|ENV)[ \t]+)(\w+)", "variable"),
)

# Keys are left out, because a file can have hundreds.
TABLES = grammar((rb"^[ \t]*\[\[?([^\[\]\n]+)\]\]?", "section"))

GRAMMARS: dict[str, Grammar] = {
    "Markdown": MARKDOWN, "MDX": MARKDOWN, "Makefile": MAKEFILE, "SQL": SQL, "PL/pgSQL": SQL, "PL/SQL": SQL,
    "TSQL": SQL, "Terraform": TERRAFORM, "HCL": TERRAFORM, "CMake": CMAKE, "Dockerfile": DOCKERFILE, "TOML": TABLES,
    "INI": TABLES,
}  # fmt: skip
