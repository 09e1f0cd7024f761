"""Grammars of C, C++, Objective-C, Java and C#. Declarations are matched in the outline, independent of lines."""

from argosy.search.symbols import lexical_rules
from argosy.search.symbols.grammar import OWNER, Form, Grammar, Nest, each, grammar
from argosy.search.symbols.lexical_rules import (
    ATTRIBUTE,
    CLASS,
    ENUM,
    EXTERN,
    INTERFACE,
    NAMESPACE,
    OPERATOR,
    RECORD,
    STRUCT,
    TOP,
    TYPEDEF,
    UNION,
    words,
)
from argosy.search.symbols.outline import (
    ANGLES,
    ANNOTATIONS,
    BASES,
    BRACKETS,
    DIRECTIVES,
    NAMED,
    PAREN_ENDS,
    PARENS,
    VALUES,
)

_OUTSIDE = (TOP, NAMESPACE, EXTERN)
_RECORDS = (CLASS, STRUCT, UNION)
_FUNCTION = {**each("function", _OUTSIDE), **each("method", _RECORDS)}
_DECLARED = {**each("variable", _OUTSIDE), **each("field", _RECORDS), ENUM: "enumerator"}

# Macros and attributes of GCC and the Linux kernel in positions where a name or a type can be.
_ATTRIBUTES = """
    __attribute__ __attribute __declspec __extension__ alignas _Alignas __asm__ asm __aligned __packed __init __exit
    __initdata __initconst __exitdata __read_mostly __ro_after_init __maybe_unused __used __refdata __ref __user __iomem
    __percpu __rcu __force __must_check __cold __hot __noreturn __always_inline noinline __releases __acquires
    __must_hold __printf __cacheline_aligned __cacheline_aligned_in_smp ____cacheline_aligned __section __weak __visible
    ____cacheline_aligned_in_smp __latent_entropy __randomize_layout asmlinkage __counted_by __net_init __net_exit
    __net_initdata __meminit __sched __kprobes notrace __cpuinit __devinit __devexit
"""
_C_WORDS = {
    STRUCT: "struct",
    UNION: "union",
    ENUM: "enum",
    EXTERN: "extern",
    TYPEDEF: "typedef",
    ATTRIBUTE: _ATTRIBUTES,
}
_C_READS = PARENS | VALUES | PAREN_ENDS | DIRECTIVES | BRACKETS | BASES
_C_REFUSED = """
    if for while switch catch return sizeof else do case default break continue goto typedef struct union enum extern
    static const volatile int char short long float double void unsigned signed inline register auto restrict _Bool bool
    public private protected signals slots final override noexcept class namespace template typename using operator
    decltype static_assert defined __typeof__
"""

# What can follow the parameters of a function before its body: attributes are in capitals or have underscores.
_TAIL = rb"(?:(?:__\w+|_[A-Z]\w*|[A-Z][A-Z0-9_]+)\b\s*(?:\(\s*\)\s*)?)*\{"

# A type is named in the middle of its definition if it is a function pointer, else at its end.
_TYPEDEFS: tuple[Form, ...] = (
    (rb"\btypedef\b[^;{}$]*?\(\s*[*^][^()]*?(%)\s*(?:\[\s*\]\s*)*\)", "type"),
    (rb"\btypedef\b[^;{}$]*?(%)\s*(?:\[\s*\]\s*)*;", "type"),
    (rb"\$[\s*]*(%)\s*(?:\[\s*\]\s*)*[;$]", "type"),
)
_DECLARATIONS: tuple[Form, ...] = (
    # Forms without a group are skipped: here, declarations of what is defined elsewhere.
    (rb"\bextern\b[^;{}]*;",),
    (rb"\(\s*[*^]\s*(?:const\s+)?(%)\s*(?:\[\s*\]\s*)*\)\s*\(", _DECLARED),
    (rb"(%)\s*(?:\[\s*\]\s*)*(?:\{\s*\}\s*)?(?:[;,=}$]|:[^:;,{}()?]*[;,])", _DECLARED),
)

C = grammar(
    *_TYPEDEFS,
    (rb"\bstruct\s+(?:%\s+)??(%)\s*\{", "struct"),
    (rb"\bunion\s+(?:%\s+)??(%)\s*\{", "union"),
    (rb"\benum\s+(?:%\s+)??(%)\s*\{", "enum"),
    # A forward declaration defines nothing.
    (rb"\b(?:struct|union|enum)\s+%\s*;",),
    (rb"(%)\s*\(\s*\)\s*" + _TAIL, _FUNCTION),
    *_DECLARATIONS,
    lexical=lexical_rules.C, nest=Nest.OUTLINE, words=words(_C_WORDS), reads=_C_READS, reserved=_C_REFUSED,
)  # fmt: skip

_CPP_TAIL = (
    rb"(?:(?:const|noexcept|override|final|volatile|try|mutable|throw|&&?|__\w+|_[A-Z]\w*|[A-Z][A-Z0-9_]+)\s*(?:\(\s*\)\s*)?)*"
    rb"(?:->[^;{}()]*)?(?:\brequires\b[^;{}]*)?(?::[^;{}]*)?\{"
)
_OPERATOR = rb"operator\s*(?:\(\s*\)|\[\s*\]|[^\s\w(\[]+|[\w:]+(?:\s*<\s*>)?[\s*&]*)"
_QUALIFIED = rb"(?:%\s*(?:<\s*>\s*)?::\s*)*"
_CPP: tuple[Form, ...] = (
    *_TYPEDEFS,
    (rb"\bnamespace\s+(?:%\s*::\s*(?:inline\s+)?)*(%)\s*(?:%\s*\(\s*\)\s*)?\{", "namespace"),
    (rb"\benum\s+(?:class\s+|struct\s+)?" + _QUALIFIED + rb"(%)\s*\{", "enum"),
    (rb"\bclass\s+(?:%\s+)*?" + _QUALIFIED + rb"(%)\s*(?:<\s*>\s*)?(?:final\s*)?\{", "class"),
    (rb"\bstruct\s+(?:%\s+)*?" + _QUALIFIED + rb"(%)\s*(?:<\s*>\s*)?(?:final\s*)?\{", "struct"),
    (rb"\bunion\s+(?:%\s+)*?(%)\s*(?:<\s*>\s*)?\{", "union"),
    (rb"\b(?:struct|union|enum(?:\s+class|\s+struct)?|class)\s+(?:%\s*::\s*)*%\s*(?::[^;{}()]*)?;",),
    (rb"\busing\s+(%)\s*=", "alias"),
    (rb"\bconcept\s+(%)\s*=", "concept"),
    # A declaration that imports a name; aliases are matched above.
    (rb"\busing\b[^;]*;",),
    # An access specifier, which would be taken for a bit field.
    (rb"\b(?:public|private|protected|signals|slots)\s*:",),
    (rb"(%)\s*(?:<\s*>\s*)?::\s*(~?%|" + _OPERATOR + rb")\s*\(\s*\)\s*" + _CPP_TAIL, OWNER, "method"),
    (rb"\b(" + _OPERATOR + rb")\s*\(\s*\)\s*" + _CPP_TAIL, _FUNCTION),
    (rb"(~?%)\s*(?:<\s*>\s*)?\(\s*\)\s*" + _CPP_TAIL, _FUNCTION),
    *_DECLARATIONS,
)
_CPP_WORDS = words(
    {
        **_C_WORDS,
        CLASS: "class",
        NAMESPACE: "namespace",
        OPERATOR: "operator",
        ATTRIBUTE: _ATTRIBUTES + "Q_OBJECT Q_PROPERTY Q_INVOKABLE explicit",
    }
)

CPP = grammar(
    *_CPP, lexical=lexical_rules.CPP, nest=Nest.OUTLINE, words=_CPP_WORDS, reads=_C_READS | ANGLES, reserved=_C_REFUSED
)
OBJECTIVE_C = grammar(
    (rb"^@interface\s+(%)\s*\(", "extension"),
    (rb"^@interface\s+(%)", "interface"),
    (rb"^@protocol\s+(%)[^;\n]*$", "protocol"),
    (rb"^@implementation\s+(%)", "implementation"),
    (rb"^@property\b[^;\n]*?(%)\s*;", "property"),
    (rb"^[-+][ \t]*\(\s*\)\s*(%)", "method"),
    (rb":\s*\(\s*\)\s*%",),
    *_CPP,
    lexical=lexical_rules.CPP, nest=Nest.OUTLINE, words=_CPP_WORDS, reads=_C_READS | ANGLES, reserved=_C_REFUSED,
)  # fmt: skip

_MANAGED = (CLASS, STRUCT, ENUM, INTERFACE, RECORD)
_FIELDS = {**each("field", _MANAGED), INTERFACE: "constant"}

JAVA = grammar(
    (rb"@interface\s+(%)", "annotation"),
    (rb"\bclass\s+(%)", "class"),
    (rb"\binterface\s+(%)", "interface"),
    (rb"\benum\s+(%)", "enum"),
    (rb"\brecord\s+(%)\s*(?:<\s*>\s*)?\(", "record"),
    # Base types are skipped: followed by a comma they look like fields.
    (rb"\b(?:extends|implements|permits)\b[^;{}()]*\{",),
    (rb"^\s*package\s+([\w.]+)\s*;", "package"),
    (rb"\b(?:import|requires|exports|opens|uses|provides)\b[^;{}]*;",),
    (rb"(%)\s*\(\s*\)\s*(?:\[\s*\]\s*)*(?:throws\b[^;{}()]*)?\{", each("method", _MANAGED)),
    (rb"[\w>\]]\s+(%)\s*\(\s*\)\s*(?:\[\s*\]\s*)*(?:throws\b[^;{}()]*|default\b[^;]*)?;", each("method", _MANAGED)),
    (rb"[\w>\]]\s+(%)\s*(?:\[\s*\]\s*)*[;,=]", _FIELDS),
    (rb"(%)\s*(?:\(\s*\)\s*)?(?:\{\s*\}\s*)?[;,=}]", {ENUM: "enumerator"}),
    lexical=lexical_rules.JAVA, nest=Nest.OUTLINE, reads=PARENS | ANGLES | VALUES | NAMED | ANNOTATIONS,
    words=words({CLASS: "class", INTERFACE: "interface", ENUM: "enum", RECORD: "record"}),
    reserved="if for while switch return else do case default static final public private protected abstract new",
)  # fmt: skip

CSHARP = grammar(
    (rb"\bnamespace\s+((?:%\s*\.\s*)*%)", "namespace"),
    (rb"\brecord\s+(?:class\s+|struct\s+)?(%)", "record"),
    (rb"\bclass\s+(%)", "class"),
    (rb"\bstruct\s+(%)", "struct"),
    (rb"\binterface\s+(%)", "interface"),
    (rb"\benum\s+(%)", "enum"),
    (rb"\bdelegate\b[^;(){}]*?(%)\s*(?:<\s*>\s*)?\(\s*\)[^;{}]*;", "delegate"),
    (rb"\bevent\b[^;(){}=]*?(%)\s*[;{=]", "event"),
    (rb"\busing\b[^;{}]*;",),
    # Constraints of type parameters contain names that are not defined here.
    (rb"\bwhere\b[^;{}()]*",),
    (rb"(%)\s*(?:<\s*>\s*)?\(\s*\)\s*(?:where\b[^;{}]*|:[^;{}]*)?[{=]", each("method", _MANAGED)),
    (rb"[\w>\]?]\s+(?:%\.)*(%)\s*(?:<\s*>\s*)?\(\s*\)\s*(?:where\b[^;{}]*)?;", each("method", _MANAGED)),
    (rb"[\w>\]?]\s+(?:%\.)*(%)\s*\{\s*\}", each("property", _MANAGED)),
    (rb"[\w>\]?]\s+(%)\s*[;,=]", each("field", _MANAGED)),
    (rb"(%)\s*[,=}]", {ENUM: "enumerator"}),
    lexical=lexical_rules.CSHARP, nest=Nest.OUTLINE,
    reads=PARENS | ANGLES | VALUES | NAMED | DIRECTIVES | BRACKETS | BASES,
    words=words({
        CLASS: "class", STRUCT: "struct", INTERFACE: "interface", ENUM: "enum", RECORD: "record", NAMESPACE: "namespace"
    }),
    reserved="""
        if for while switch return else do case default static readonly public private protected internal new get set
    """,
)  # fmt: skip

GRAMMARS: dict[str, Grammar] = {
    "C": C, "C++": CPP, "Cuda": CPP, "Objective-C": OBJECTIVE_C, "Objective-C++": OBJECTIVE_C, "Java": JAVA,
    "C#": CSHARP,
}  # fmt: skip
