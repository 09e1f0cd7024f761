"""Go, Rust, Protobuf, GraphQL."""

from tests.search.symbols.outlines import expected, outline_of


def test_the_definitions_of_go() -> None:
    source = """\
        package server

        import (
        \t"fmt"
        \talias "net/http"
        )

        const Single = 1

        const (
        \tFirst = iota // comment
        \tSecond
        \t_
        )

        var (
        \ttable = map[string]func(){
        \t\t"a": func() { inner := 1; _ = inner },
        \t}
        \tErrClosed = fmt.Errorf("func no() {")
        )
        var Global, other int

        // Earlier methods are of a type that comes later.
        func (s *Server[T]) Serve(addr string, opts ...func(*Server[T])) (n int, err error) {
        \tvar local int
        \ttype hidden struct{ x int }
        \treturn
        }

        type Server[T any] struct {
        \tsync.Mutex
        \t*Base
        \tName, Host string `json:"name"`
        \thandler    func(a int, b string) error
        \tnested     struct {
        \t\tdeep int
        \t}
        }

        type Handler interface {
        \tHandle(ctx context.Context) error
        \tfmt.Stringer
        }

        type (
        \tID    int
        \tPair  struct{ a, b int }
        \tAlias = ID
        )
        type Func func(int) error
        type Same = Server[int]

        func (ID) String() string { return `func raw() {` }
        func Map[T, U any](in []T, f func(T) U) []U {
        \treturn nil
        }
        """
    assert outline_of("Go", source) == expected("""
        package server
        constant Single
        constant First
        constant Second
        variable table
        variable ErrClosed
        variable Global
        method Server.Serve
        struct Server
        field Server.Mutex
        field Server.Base
        field Server.Name
        field Server.Host
        field Server.handler
        field Server.nested
        field nested.deep
        interface Handler
        method spec Handler.Handle
        type ID
        struct Pair
        field Pair.a
        field Pair.b
        type Alias
        type Func
        alias Same
        method ID.String
        function Map
    """)


def test_the_definitions_of_rust() -> None:
    source = """\
        //! fn not_me() {}
        use std::fmt::{self, Display};
        pub const LIMIT: usize = 1 << 4;
        static mut COUNTER: AtomicUsize = AtomicUsize::new(0);
        type Result<T> = std::result::Result<T, Error>;

        #[derive(Debug, Clone)]
        pub struct Point<'a, T: 'a> where T: Display { pub x: T, pub(crate) y: &'a str }
        pub struct Unit;
        struct Pair(i32, i32);
        pub enum Shape { Circle(f64), Square { side: f64 }, #[doc = "x"] Empty = 3 }
        union Bits { a: u32, b: f32 }

        pub trait Area: Display {
            const SIDES: usize;
            type Output;
            fn area(&self) -> f64;
            fn double(&self) -> f64 { self.area() * 2.0 }
        }

        impl<'a, T> Point<'a, T> {
            pub const fn new(x: T, y: &'a str) -> Self { let c = '{'; Self { x, y } }
            pub async unsafe fn go<F>(&mut self, f: F) -> impl Iterator<Item = u8> where F: Fn(u8) -> u8 { todo!() }
        }
        impl<T> fmt::Display for Point<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { write!(f, r#"fn raw() { " "#) }
        }

        macro_rules! square { ($x:expr) => { fn generated() {} }; }
        mod inner { pub(super) fn deep() {} }
        extern "C" { fn c_function(x: i32); }
        pub extern "C" fn exported() { /* { /* nested */ */ }
        cfg_if! { fn conditional() {} }
        fn lifetime<'a>(x: &'a str) -> &'a str { x }
        """
    assert outline_of("Rust", source) == expected("""
        constant LIMIT
        variable COUNTER
        type Result
        struct Point
        field Point.x
        field Point.y
        struct Unit
        struct Pair
        enum Shape
        enumerator Shape.Circle
        enumerator Shape.Square
        enumerator Shape.Empty
        union Bits
        field Bits.a
        field Bits.b
        trait Area
        constant Area.SIDES
        type Area.Output
        method Area.area
        method Area.double
        implementation Point
        method Point.new
        method Point.go
        implementation Point
        method Point.fmt
        macro square
        module inner
        function inner.deep
        function c_function
        function exported
        function conditional
        function lifetime
    """)


def test_the_definitions_of_protobuf() -> None:
    source = """\
        syntax = "proto3";
        package acme.v1;
        import "other.proto";
        option go_package = "x";
        message Person {
          string name = 1;
          repeated Phone phones = 2 [deprecated = true];
          map<string, int32> scores = 3;
          oneof contact { string email = 4; }
          enum Kind { UNKNOWN = 0; HOME = 1; }
          message Phone { Kind kind = 1; }
          reserved 9, 10;
        }
        service Directory {
          rpc Find (FindRequest) returns (stream Person) { option (x) = "y"; }
          rpc List (ListRequest) returns (ListReply);
        }
        """
    assert outline_of("Protocol Buffer", source) == expected("""
        package acme.v1
        message Person
        field Person.name
        field Person.phones
        field Person.scores
        union Person.contact
        field contact.email
        enum Person.Kind
        enumerator Kind.UNKNOWN
        enumerator Kind.HOME
        message Person.Phone
        field Phone.kind
        service Directory
        rpc Directory.Find
        rpc Directory.List
    """)


def test_the_definitions_of_graphql() -> None:
    source = '''\
        """type Not { me: Int }"""
        scalar Date
        directive @auth(role: String) on FIELD_DEFINITION
        type User implements Node @key(fields: "id") {
          id: ID!          # a comment
          posts(first: Int = 3, after: String): [Post!]!
        }
        interface Node { id: ID! }
        enum Role {
          ADMIN
          GUEST @deprecated
        }
        input NewUser { name: String! }
        union Result = User | Post
        extend type Query { me: User }
        query Me($id: ID!) { me { id } }
        '''
    assert outline_of("GraphQL", source) == expected("""
        alias Date
        annotation auth
        type User
        field User.id
        field User.posts
        interface Node
        enum Role
        enumerator Role.ADMIN
        struct NewUser
        union Result
        type Query
        function Me
    """)
