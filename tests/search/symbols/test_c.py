"""C and C++, as people write them: macros, conditionals, pointers to functions, templates, operators."""

from tests.search.symbols.outlines import expected, outline_of


def test_the_definitions_of_c() -> None:
    source = """\
        /* int not_this(void) { } */
        #include <stdio.h>
        #define LIMIT 10
        #  define SWAP(a, b) do { \\
                int swap_inner = a; /* a comment
                that goes on */ } while (0)
        #ifdef CONFIG_X
        extern int elsewhere;
        #endif

        struct forward;
        struct point { int x, y; unsigned bits:3, more:5; };
        typedef struct { double re; double im; } complex_t, *complex_p;
        typedef unsigned long word_t;
        typedef int (*callback)(void *, int);
        union value { long i; char *s; };
        enum colour { RED, GREEN = 2, BLUE };

        struct ops {
            int (*open)(struct inode *, struct file *);
            struct {
                int inner;
            } nested;
            const char *name[4];
        } __attribute__((packed));

        static const char *const names[] = { "a", "b" };
        int counter = 3, other;
        static struct point origin = { .x = 0, .y = LIMIT };

        int prototype(int a, char *b);

        static inline int __init add(int a,
                                     int b)
        {
            int local = a;
            if (local) { return b; }
        #define INSIDE 1
            return local + b;
        }

        struct point *
        make_point(void)
        {
            char brace = '{';
            return 0;
        }
        """
    assert outline_of("C", source) == expected("""
        macro LIMIT
        macro SWAP
        struct point
        field point.x
        field point.y
        field point.bits
        field point.more
        field complex_t.re
        field complex_t.im
        type complex_t
        type complex_p
        type word_t
        type callback
        union value
        field value.i
        field value.s
        enum colour
        enumerator colour.RED
        enumerator colour.GREEN
        enumerator colour.BLUE
        struct ops
        field ops.open
        field ops.inner
        field ops.nested
        field ops.name
        variable names
        variable counter
        variable other
        variable origin
        function add
        macro INSIDE
        function make_point
    """)


def test_a_brace_opened_in_both_branches_of_a_conditional_is_closed_once() -> None:
    source = """\
        int first(int a)
        {
        #ifdef FAST
            if (a) {
        #else
            if (!a) {
        #endif
                a++;
            }
            return a;
        }

        int second(void) { return 2; }
        """
    assert outline_of("C", source) == ["function first", "function second"]


def test_a_function_defined_twice_for_two_configurations_is_listed_twice() -> None:
    source = """\
        #ifdef CONFIG_SMP
        int lock(void);
        #else
        static inline int lock(void) { return 0; }
        #endif
        #if A
        int init(int a)
        #else
        int init(long a)
        #endif
        {
            return 1;
        }
        """
    assert outline_of("C", source) == ["function lock", "function init"]


def test_a_brace_in_column_one_ends_a_body_that_a_macro_left_open() -> None:
    source = """\
        void broken(void)
        {
            BEGIN_LOOP {
        }

        void after(void)
        {
        }
        """
    assert outline_of("C", source) == ["function broken", "function after"]


def test_c_inside_extern_c_is_c() -> None:
    source = """\
        #ifdef __cplusplus
        extern "C" {
        #endif
        int api_version;
        static int helper(void) { return 1; }
        #ifdef __cplusplus
        }
        #endif
        """
    assert outline_of("C", source) == ["variable api_version", "function helper"]


def test_lines_that_end_with_carriage_returns_are_lines() -> None:
    assert outline_of("C", b"#define A \\\r\n  1\r\nint f(void)\r\n{\r\n}\r\nint x;\r\n") == [
        "macro A",
        "function f",
        "variable x",
    ]


def test_invalid_utf8_is_no_error() -> None:
    assert outline_of("C", b"/* \xff\xfe */ int caf\xe9(void) { }\nint b;\n") == ["function caf�", "variable b"]


def test_the_definitions_of_cpp() -> None:
    source = """\
        namespace outer::inner {
        template <typename T, class U = std::vector<T>>
        class Stack final : public Base<T>, private Other {
        public:
            Stack() = default;
            explicit Stack(int n) : size_(n), items{n} { }
            ~Stack() { clear(); }
            void push(const T& item) noexcept override { items.push_back(item); }
            T top() const;
            template <class V> V as() const { return V(); }
            bool operator==(const Stack& other) const { return true; }
            T& operator[](int i) { return items[i]; }
            operator bool() const { return size_ > 0; }
            using value_type = T;
            friend class Friend;
            static constexpr int kMax = 16;
            enum class State : int { Empty, Full = 2 };
            struct Node { Node* next = nullptr; int weight{1}; };
        private:
            std::map<int, std::string> items;
            int size_;
        };

        enum Plain { One, Two };
        union Either { int a; float b; };
        }  // namespace

        template <typename T>
        T Stack<T>::top() const { return items.back(); }

        auto arrow(int x) -> std::vector<int> { return {x}; }
        template <typename T> concept Hashable = requires(T a) { a.hash(); };
        std::ostream& operator<<(std::ostream& out, const Plain& p) { return out; }
        const char* raw = R"x(int not_me() { " } )x";
        namespace std _GLIBCXX_VISIBILITY(default) { struct seen { }; }
        #define CHECK(x) if (!(x)) { abort(); }
        int main(int argc, char** argv) try { return 0; } catch (...) { return 1; }
        """
    assert outline_of("C++", source) == expected("""
        namespace inner
        class inner.Stack
        method Stack.Stack
        method Stack.~Stack
        method Stack.push
        method Stack.as
        method Stack.operator==
        method Stack.operator[]
        method Stack.operator bool
        alias Stack.value_type
        field Stack.kMax
        enum Stack.State
        enumerator State.Empty
        enumerator State.Full
        struct Stack.Node
        field Node.next
        field Node.weight
        field Stack.items
        field Stack.size_
        enum inner.Plain
        enumerator Plain.One
        enumerator Plain.Two
        union inner.Either
        field Either.a
        field Either.b
        method Stack.top
        function arrow
        concept Hashable
        function operator<<
        variable raw
        namespace std
        struct std.seen
        macro CHECK
        function main
    """)


def test_the_definitions_of_objective_c() -> None:
    source = """\
        #import <Foundation/Foundation.h>
        @protocol Walker
        - (void)walk;
        @end
        @interface Dog : NSObject <Walker>
        @property (nonatomic, strong) NSString *name;
        - (id)initWithName:(NSString *)name age:(int)age;
        @end
        @implementation Dog
        - (void)walk { NSLog(@"- (void)no { }"); }
        + (instancetype)dog { return nil; }
        @end
        static int helper(int a) { return a; }
        """
    assert outline_of("Objective-C", source) == expected("""
        protocol Walker
        method walk
        interface Dog
        property name
        method initWithName
        implementation Dog
        method walk
        method dog
        function helper
    """)
