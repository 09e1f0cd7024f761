"""Detects the language of a file: by its name, then its extension, then its first lines.

Two dictionary lookups decide for most files. The content is examined only if several languages share the extension, or
if there is none; a file that is still undecided has the language "", not a guess.
"""

import re
from collections.abc import Callable

from argosy.search.languages.table import BY_EXTENSION, BY_FILE_NAME, BY_INTERPRETER, canonical

HEAD_BYTES = 4096  # of a file are examined: what distinguishes languages comes early


def language_of(path: bytes, head: bytes) -> str:
    """The canonical name of the language, or "" if unknown. `head` is the beginning of the file, or all of it."""
    name = path.rpartition(b"/")[2]
    # The whole name first: `CMakeLists.txt` is no plain text.
    found = BY_FILE_NAME.get(name)
    if found is not None:
        return found
    # The last extension: `jquery.min.js` is JavaScript, whatever precedes it.
    stem, dot, extension = name.rpartition(b".")
    if dot:
        extension = extension.lower()
        choose = _CHOICES.get(extension)
        if choose is not None:
            return choose(head[:HEAD_BYTES], stem)
        found = BY_EXTENSION.get(extension)
        if found is not None:
            return found
    return _by_stem(name) or _by_content(head)


def _by_stem(name: bytes) -> str:
    """Names that begin with the kind of file: `Dockerfile.dev`, `Makefile.old`, `Kconfig.cpu`."""
    return _STEMS.get(name.partition(b".")[0], "")


_STEMS = {
    b"Dockerfile": "Dockerfile", b"Containerfile": "Dockerfile", b"Makefile": "Makefile", b"GNUmakefile": "Makefile",
    b"Kconfig": "Kconfig", b"Jenkinsfile": "Groovy", b"LICENSE": "Text", b"COPYING": "Text", b"README": "Text",
    b"Kbuild": "Makefile", b"Rakefile": "Ruby", b"CHANGELOG": "Text",
}  # fmt: skip

_SHEBANG = re.compile(rb"#![ \t]*(?:[^ \t\r\n]*/)?([^ \t\r\n/]+)([^\r\n]*)")
# Arguments of `env` before the interpreter: options and variables.
_ENV_WORD = re.compile(rb"-|\w+=")
_MODELINE = re.compile(
    rb"-\*-[ \t]*(?:[^\n]{0,200}?\bmode:[ \t]*)?([\w+#-]+)[ \t]*(?:;[^\n]{0,200})?-\*-"
    rb"|\b(?:vim?|ex):[^\n]{0,200}?\b(?:ft|filetype|syntax)=(\w+)",
    re.IGNORECASE,
)
_MODELINE_BYTES = 400  # editors look at the first lines only


def _by_content(head: bytes) -> str:
    if head.startswith(b"#!"):
        found = _by_shebang(head)
        if found:
            return found
    if head.startswith(b"<?xml"):
        return "XML"
    if head.startswith(b"<?php"):
        return "PHP"
    lines = head[:_MODELINE_BYTES]
    # Two searches for substrings spare the regular expression in nearly all files.
    if b"-*-" in lines or b"vi" in lines:
        modeline = _MODELINE.search(lines)
        if modeline is not None:
            return canonical((modeline[1] or modeline[2]).decode("ascii", "replace")) or ""
    return ""


def _by_shebang(head: bytes) -> str:
    match = _SHEBANG.match(head[:_MODELINE_BYTES])
    if match is None:
        return ""
    program = match[1]
    # `env` is not the interpreter: it follows options and variables.
    if program == b"env":
        words = [word for word in match[2].split() if not _ENV_WORD.match(word)]
        if not words:
            return ""
        program = words[0].rpartition(b"/")[2]
    # `python3.11` is `python` if the table lacks the version.
    return BY_INTERPRETER.get(program) or BY_INTERPRETER.get(program.rstrip(b"0123456789.-"), "")


_CPP_HEADER = re.compile(
    rb"^[ \t]*(?:class[ \t]+\w+(?:[ \t]+final)?[ \t]*[:{;]|template[ \t]*<|namespace\b|using[ \t]+\w"
    rb"|(?:public|private|protected):|#[ \t]*include[ \t]*<[a-z_]+>)|\bstd::|\bconstexpr\b|\bnoexcept\b",
    re.MULTILINE,
)
_OBJECTIVE_C = re.compile(
    rb"^[ \t]*(?:@(?:interface|implementation|protocol|class|property|end|import|synthesize|autoreleasepool)\b"
    rb"|#[ \t]*import[ \t]+[<\"])|\bNS(?:String|Object|Array|Integer|UInteger)\b",
    re.MULTILINE,
)


def _header(head: bytes, _stem: bytes) -> str:
    # C headers are frequent and rarely have either, so they skip the expression.
    if (b"@" in head or b"#import" in head) and _OBJECTIVE_C.search(head):
        return "Objective-C"
    # `extern "C"` is no sign of C++: C headers have it so that C++ can include them.
    return "C++" if _CPP_HEADER.search(head) else "C"


_MATLAB = re.compile(rb"^[ \t]*(?:%|function\b[^(){};\n]*=|end[ \t]*$|clc\b|close[ \t]+all)", re.MULTILINE)
_MERCURY = re.compile(rb"^:- module\b", re.MULTILINE)
_WOLFRAM = re.compile(rb"\(\*|^[ \t]*(?:BeginPackage|Begin)\[", re.MULTILINE)


def _dot_m(head: bytes, _stem: bytes) -> str:
    if _OBJECTIVE_C.search(head):
        return "Objective-C"
    if _MERCURY.search(head):
        return "Mercury"
    if _WOLFRAM.search(head) and b"/*" not in head:
        return "Wolfram Language"
    # An undecided file is Objective-C, the most common of these languages.
    return "MATLAB" if _MATLAB.search(head) else "Objective-C"


def _rule(pattern: bytes, then: str, otherwise: str, flags: int = re.MULTILINE) -> Callable[[bytes, bytes], str]:
    search = re.compile(pattern, flags).search

    def choose(head: bytes, _stem: bytes) -> str:
        return then if search(head) else otherwise

    return choose


def _php(_head: bytes, stem: bytes) -> str:
    return "Blade" if stem.endswith(b".blade") else "PHP"


def _kts(_head: bytes, stem: bytes) -> str:
    return "Gradle Kotlin DSL" if stem.endswith(b".gradle") else "Kotlin"


def _inc(head: bytes, _stem: bytes) -> str:
    if head.lstrip().startswith(b"<?"):
        return "PHP"
    return "C++" if re.search(rb"^[ \t]*(?:#|//|/\*)", head, re.MULTILINE) else ""


# Extensions of several languages: functions of the beginning of the file and its name without the extension.
_CHOICES: dict[bytes, Callable[[bytes, bytes], str]] = {
    b"h": _header,
    b"m": _dot_m,
    b"php": _php,
    b"kts": _kts,
    b"inc": _inc,
    b"ts": _rule(rb"\A\s*<(?:\?xml|!DOCTYPE TS|TS\b)", "XML", "TypeScript"),
    b"pl": _rule(rb"^:-|^[a-z]\w*\([^)\n]*\)[ \t]*(?::-|\.[ \t]*$)", "Prolog", "Perl"),
    b"v": _rule(rb"^(?:Require|Theorem|Lemma|Definition|Inductive|Section|From)[ \t]", "Coq", "Verilog"),
    b"d": _rule(rb"^[^\s:#]+\.o:|\\\n", "Makefile", "D"),
    b"fs": _rule(rb"^\s*#version\b|\bgl_FragColor\b", "GLSL", "F#"),
    b"cl": _rule(rb"^\s*\((?:defun|in-package|defpackage|defmacro)\b", "Common Lisp", "OpenCL"),
    b"cls": _rule(rb"^[ \t]*(?:public|private|global)\b[^\n]*\bclass\b", "Apex", "TeX", re.MULTILINE | re.IGNORECASE),
    b"md": _rule(rb"^\(define_(?:insn|expand|constants|mode)", "GCC Machine Description", "Markdown"),
    b"res": _rule(rb"^\s*(?:let|type|module|open)\b", "ReScript", ""),
    b"p": _rule(rb"(?i)^\s*(?:procedure|define[ \t]+variable|def[ \t]+var)\b", "OpenEdge ABL", ""),
    b"sol": _rule(rb"^\s*(?:pragma|contract|interface|library|//|/\*|import)", "Solidity", ""),
    b"st": _rule(rb"!\w+ (?:class )?methodsFor:|subclass:", "Smalltalk", ""),
    b"spec": _rule(rb"^(?:Name|Version|Summary|License):", "RPM Spec", ""),
    b"tpl": _rule(rb"\{/?(?:foreach|include|if|literal|assign)\b", "Smarty", ""),
    b"gd": _rule(rb"^(?:extends|class_name|func|var)\b", "GDScript", ""),
    b"ls": _rule(rb"->|^[ \t]*(?:require!|export)\b", "LiveScript", ""),
    b"cfg": _rule(rb"^\[[^\]\n]+\]", "INI", ""),
    b"x": _rule(rb"\bSECTIONS\b|\bOUTPUT_ARCH\b", "Linker Script", ""),
}
