"""Grammars of JavaScript and TypeScript, PHP, Python, Ruby, Lua, Perl, Elixir, Haskell, shell."""

from argosy.search.symbols import lexical_rules
from argosy.search.symbols.grammar import NAME, OWNER, Form, Grammar, Nest, each, grammar
from argosy.search.symbols.lexical_rules import (
    BLOCK,
    CLASS,
    ENUM,
    INTERFACE,
    NAMESPACE,
    TOP,
    TRAIT,
    words,
)

PYTHON = grammar(
    (rb"^[ \t]*(?:async[ \t]+)?def[ \t]+(%)", "function"),
    (rb"^[ \t]*class[ \t]+(%)", "class"),
    (rb"^[ \t]*type[ \t]+(%)[ \t]*(?:\[[^\]\n]*\][ \t]*)?=", "type"),
    (rb"^[ \t]*([A-Z_][A-Z0-9_]*)[ \t]*(?::[^=\n]*)?=[^=]", "constant"),
    (rb"^[ \t]*(%)[ \t]*(?::[^=\n]*)?=[^=]", "variable"),
    (rb"^[ \t]+(%)[ \t]*:[ \t]*[\w\"'\[]", "field"),
    lexical=lexical_rules.PYTHON, nest=Nest.PYTHON, reserved="else try finally _ lambda print with except",
    inner={
        "function": {"class": "method"}, "variable": {"class": "field"},
        "field": {"function": "", "method": "", "field": "", "variable": ""},
    },
)  # fmt: skip

_ID = rb"[A-Za-z_$\x80-\xff][\w$\x80-\xff]*"
_FUNCTION_VALUE = (
    rb"(?:async\b\s*)?(?:function\b|(?:<[^<>()\n]*>\s*)?\(\s*\)(?:\s*:[^=;{}()\n]+)?\s*=>|" + _ID + rb"\s*=>)"
)
_ANYWHERE = (TOP, BLOCK, NAMESPACE, CLASS, INTERFACE, ENUM)
_CLASSES = (CLASS, INTERFACE)
# Not after a dot: `object.class` and the like are properties.
_START = rb"(?:^|[^.\w$])"
# A keyword with parentheses and a brace looks like a method: `if (x) {`.
_CONTROL = """
    if for while switch catch with function return else do try new delete typeof await yield case throw in of
    import export extends exports prototype implements
"""

# What can follow a name at the start of a line: a body, a function value, a signature, a type, a value, nothing.
_BODY = rb"(\s*(?:<[^()\n]*>\s*)?\(\s*\)\s*(?::[^;{}=\n]+)?\{)"
_IS_FUNCTION = rb"(\s*:\s*" + _FUNCTION_VALUE + rb")"
_BECOMES_FUNCTION = rb"(\s*(?::[^=;{}\n]*)?=\s*" + _FUNCTION_VALUE + rb")"
_SIGNATURE = rb"(\??\s*(?:<[^()\n]*>\s*)?\(\s*\)\s*:)"
_TYPED = rb"([?!]?[ \t]*:)"
_VALUE = rb"([?!]?[ \t]*(?::[^=;\n]*)?[=;])"
_ALONE = rb"([ \t]*(?:=[^,\n]*)?,?[ \t]*$)"
_LINE = (
    rb"^[ \t]*(?:(?:public|private|protected|static|async|override|readonly|abstract|declare|accessor|export|default)"
    rb"\s+)*"
    rb"(?:[gs]et\s+)?[*#]?[ \t]*(" + _ID + rb")"
)
_METHOD = each("method", _ANYWHERE)
_FUNCTION_PROPERTY = {BLOCK: "property", CLASS: "field", INTERFACE: "property"}

_SCRIPT: tuple[Form, ...] = (
    (_START + rb"class\s+(" + _ID + rb")", "class"),
    (_START + rb"function\s*\*?\s*(" + _ID + rb")\s*[<(]", "function"),
    (
        rb"\b(?:export\s+)?(?:const|let|var)\s+(" + _ID + rb")\s*(?::[^=;\n]*)?=\s*"
        rb"(?:(" + _FUNCTION_VALUE + rb")|(class\b))",
        NAME,
        "function",
        "class",
    ),
    (rb"^(?:[ \t]*export\s+)?(?:declare\s+)?const\s+(" + _ID + rb")", {TOP: "constant", NAMESPACE: "constant"}),
    (rb"^(?:[ \t]*export\s+)?(?:declare\s+)?(?:let|var)\s+(" + _ID + rb")", {TOP: "variable", NAMESPACE: "variable"}),
    (rb"[\w$\])]\.(" + _ID + rb")\s*=\s*" + _FUNCTION_VALUE, "method"),
)
# Last, because the first form that matches wins, and a function as a value of a line is more specific.
_SCRIPT_END: tuple[Form, ...] = ((rb"(" + _ID + rb")\s*:\s*" + _FUNCTION_VALUE, {BLOCK: "property"}),)

JAVASCRIPT = grammar(
    *_SCRIPT,
    (_LINE + rb"(?:" + b"|".join((_BODY, _IS_FUNCTION, _BECOMES_FUNCTION, _VALUE)) + rb")",
     NAME, _METHOD, _FUNCTION_PROPERTY, {CLASS: "method"}, {CLASS: "field"}),
    *_SCRIPT_END,
    lexical=lexical_rules.JAVASCRIPT, nest=Nest.BRACES, words=words({CLASS: "class"}), reserved=_CONTROL,
)  # fmt: skip
TYPESCRIPT = grammar(
    (_START + rb"interface\s+(" + _ID + rb")", "interface"),
    (_START + rb"(?:export\s+)?(?:declare\s+)?(?:const\s+)?enum\s+(" + _ID + rb")", "enum"),
    (_START + rb"type\s+(" + _ID + rb")\s*[=<]", "alias"),
    (_START + rb"(?:namespace|module)\s+((?:" + _ID + rb"\.)*" + _ID + rb")\s*\{", "namespace"),
    *_SCRIPT,
    (_LINE + rb"(?:"
     + b"|".join((_BODY, _IS_FUNCTION, _BECOMES_FUNCTION, _SIGNATURE, _TYPED, _VALUE, _ALONE)) + rb")",
     NAME, _METHOD, _FUNCTION_PROPERTY, {CLASS: "method"}, each("method", _CLASSES), each("property", _CLASSES),
     {**each("property", _CLASSES), ENUM: "enumerator"}, {ENUM: "enumerator"}),
    *_SCRIPT_END,
    lexical=lexical_rules.JAVASCRIPT, nest=Nest.BRACES, reserved=_CONTROL,
    words=words({CLASS: "class", INTERFACE: "interface", ENUM: "enum", NAMESPACE: "namespace module"}),
)  # fmt: skip

_PHP_TYPES = (CLASS, INTERFACE, TRAIT, ENUM)
PHP = grammar(
    (rb"(?i:\bfunction)\s+&?\s*(%)\s*\(", {**each("function", (TOP, BLOCK, NAMESPACE)), **each("method", _PHP_TYPES)}),
    (rb"(?:^|[^:>$\w])(?i:class)\s+(%)", "class"),
    (rb"(?:^|[^:>$\w])(?i:interface)\s+(%)", "interface"),
    (rb"(?:^|[^:>$\w])(?i:trait)\s+(%)", "trait"),
    (rb"(?:^|[^:>$\w])(?i:enum)\s+(%)", "enum"),
    (rb"^\s*(?i:namespace)\s+([\w\\]+)\s*[;{]", "namespace"),
    (rb"(?i:\bconst)\s+(?:[\w?|\\]+\s+)?(%)\s*=", "constant"),
    (rb"\b(?:public|private|protected|var|static|readonly)\s+(?:[\w?|\\]+\s+)*\$(%)\s*[=;,{]",
     each("property", _PHP_TYPES)),
    (rb"\bcase\s+(%)\s*[=;]", {ENUM: "enumerator"}),
    (rb"^\$(%)\s*=[^=]", {TOP: "variable"}),
    lexical=lexical_rules.PHP, nest=Nest.BRACES,
    words=words({CLASS: "class", INTERFACE: "interface", TRAIT: "trait", ENUM: "enum", NAMESPACE: "namespace"}),
    reserved="extends implements",
)  # fmt: skip

# The percent sign is an operator here, and is escaped because it would stand for a name.
_RUBY_NAME = rb"(?:[A-Za-z_\x80-\xff][\w\x80-\xff]*[?!=]?|\[\]=?|[-+*/%<>=!~^&|]+@?)".replace(b"%", b"\\x25")
RUBY = grammar(
    (rb"^[ \t]*(?:\w+[ \t]+)?def[ \t]+(?:self|%)\.(" + _RUBY_NAME + rb")", "singleton method"),
    (rb"^[ \t]*(?:\w+[ \t]+)?def[ \t]+(" + _RUBY_NAME + rb")", "method"),
    # A kind in no context: `class << self` opens a scope and is no definition.
    (rb"^[ \t]*class[ \t]*<<[ \t]*(%)", {}),
    (rb"^[ \t]*class[ \t]+(?:::)?(?:%::)*(%)", "class"),
    (rb"^[ \t]*module[ \t]+(?:::)?(?:%::)*(%)", "module"),
    (rb"^[ \t]*([A-Z][\w]*)[ \t]*=[^=~>]", "constant"),
    (rb"^[ \t]*attr_\w+[ \t(]+:(%)", "accessor"),
    (rb"^[ \t]*alias(?:_method)?[ \t(]+:?(%[?!=]?)", "alias"),
    (rb"^[ \t]*(?:define_method|scope|delegate)[ \t(]+:(%[?!=]?)", "method"),
    lexical=lexical_rules.RUBY, nest=Nest.INDENT,
)  # fmt: skip

LUA = grammar(
    (rb"\bfunction\s+(?:%\.)*(%)[.:](%)\s*\(", OWNER, "method"),
    (rb"\bfunction\s+(%)\s*\(", "function"),
    (rb"(?:^|[^\w.])(?:%\.)*(%)\.(%)\s*=\s*function\b", OWNER, "method"),
    (rb"(%)\s*=\s*function\b", "function"),
    (rb"^local\s+(%)\s*=", "variable"),
    (rb"^(%)\s*=", "variable"),
    lexical=lexical_rules.LUA, nest=Nest.INDENT,
)  # fmt: skip

PERL = grammar(
    (rb"^[ \t]*sub[ \t]+(?:%::)*(%)", "function"),
    (rb"^[ \t]*(?:package|class)[ \t]+((?:%::)*%)", "package"),
    (rb"^[ \t]*use[ \t]+constant[ \t]+(%)", "constant"),
    (rb"^our[ \t]+[$@\x25](%)", "variable"),
    lexical=lexical_rules.RUBY,
)

ELIXIR = grammar(
    (rb"^[ \t]*defmodule[ \t]+([\w.]+)", "module"),
    (rb"^[ \t]*defprotocol[ \t]+([\w.]+)", "protocol"),
    (rb"^[ \t]*defimpl[ \t]+([\w.]+)", "implementation"),
    (rb"^[ \t]*(?:defmacro|defmacrop|defguard|defguardp)[ \t]+(%[?!]?)", "macro"),
    (rb"^[ \t]*(?:def|defp|defdelegate|defn)[ \t]+(%[?!]?)", "function"),
    (rb"^[ \t]*(defstruct|defexception)\b", "struct"),
    (rb"^[ \t]*@(?:type|typep|opaque)[ \t]+(%)", "type"),
    (rb"^[ \t]*@callback[ \t]+(%)", "method spec"),
    lexical=lexical_rules.ELIXIR, nest=Nest.INDENT,
)  # fmt: skip

HASKELL = grammar(
    (rb"^module[ \t]+([\w.]+)", "module"),
    (rb"^data[ \t]+(?:family[ \t]+|instance[ \t]+)?(?:[^=\n]*=>[ \t]*)?(%)", "type"),
    (rb"^newtype[ \t]+(?:instance[ \t]+)?(?:[^=\n]*=>[ \t]*)?(%)", "type"),
    (rb"^type[ \t]+(?:family[ \t]+|instance[ \t]+)?(%)", "alias"),
    (rb"^class[ \t]+(?:[^\n]*?=>[ \t]*)?(%)", "class"),
    (rb"^instance[ \t]+(?:[^\n]*?=>[ \t]*)?(%)", "instance"),
    (rb"^(?:foreign[ \t]+import[^\n\"]*(?:\"[^\n\"]*\"[ \t]*)?)?([a-z_][\w']*)(?:[ \t]*,[ \t]*[a-z_][\w']*)*\s*::",
     "function"),
    (rb"^[ \t]+([a-z_][\w']*)[ \t]*::", "field"),
    lexical=lexical_rules.HASKELL, nest=Nest.INDENT,
    inner={"field": {"class": "method spec", "function": "", "alias": "", "module": ""}},
    reserved="where deriving",
)  # fmt: skip

SHELL = grammar(
    (rb"^[ \t]*function[ \t]+([\w:.@+-]+)", "function"),
    (rb"^[ \t]*([\w:.@+-]+)[ \t]*\([ \t]*\)", "function"),
    (rb"^(?:export[ \t]+|readonly[ \t]+|declare[ \t]+(?:-\w+[ \t]+)*)?(%)=", "variable"),
    (rb"^[ \t]*alias[ \t]+([\w.-]+)=", "alias"),
    lexical=lexical_rules.SHELL,
)

GRAMMARS: dict[str, Grammar] = {
    "Python": PYTHON, "Starlark": PYTHON, "Cython": PYTHON, "JavaScript": JAVASCRIPT, "TypeScript": TYPESCRIPT,
    "TSX": TYPESCRIPT, "PHP": PHP, "Hack": PHP, "Ruby": RUBY, "Lua": LUA, "Luau": LUA, "Perl": PERL, "Elixir": ELIXIR,
    "Haskell": HASKELL, "Shell": SHELL, "Vue": TYPESCRIPT, "Svelte": TYPESCRIPT,
}  # fmt: skip
