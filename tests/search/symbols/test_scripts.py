"""Python, JavaScript, TypeScript, PHP, Ruby, Lua, Perl, Elixir, Haskell, shell."""

from tests.search.symbols.outlines import expected, outline_of


def test_the_definitions_of_python() -> None:
    source = '''\
        """A module.

        def not_me(): pass
        class NorMe: pass
        """
        import os

        LIMIT = 10
        name: str = "x"
        a = b = None
        call(
            keyword=1,
        indented_oddly=2)
        text = 'def in_string(): pass'  # def in_comment(): pass
        if os:
            platform = 1
        matrix = [
            [1, 2],
        ]

        @decorator(argument=1)
        @other
        class Stack(Base, metaclass=Meta):
            """class Doc: pass"""

            SIZE = 3
            items: list[int]
            count: int = 0
            __slots__ = ("a",)

            def __init__(
                self,
                size: int = 1,
            ) -> None:
                self.size = size
                local = 1

                def helper(x):
                    return x

            @property
            def top(self): return self.items[-1]

            async def pop(self): ...

            class Inner:
                def deep(self):
                    class Local: pass

        async def main():
            local = 1
            if local == 1: pass

        def annotated[T](x: T) -> T: return x
        type Alias = int
        square = lambda x: x * x
        '''
    assert outline_of("Python", source) == expected("""
        constant LIMIT
        variable name
        variable a
        variable text
        variable platform
        variable matrix
        class Stack
        constant Stack.SIZE
        field Stack.items
        field Stack.count
        field Stack.__slots__
        method Stack.__init__
        function __init__.helper
        method Stack.top
        method Stack.pop
        class Stack.Inner
        method Inner.deep
        class deep.Local
        function main
        function annotated
        type Alias
        variable square
    """)


def test_python_with_tabs_and_carriage_returns() -> None:
    assert outline_of("Python", b"class A:\r\n\tdef f(self):\r\n\t\tx = 1\r\n\tdef g(self): pass\r\n\r\nB = 2\r\n") == [
        "class A",
        "method A.f",
        "method A.g",
        "constant B",
    ]


def test_the_definitions_of_javascript() -> None:
    source = """\
        // function notMe() {}
        import x from 'y';
        export const LIMIT = 10;
        let state = {}, other;
        var legacy = function () { return 1; };
        const arrow = (a, { b } = {}) => a + b;
        const single = x => x * 2;
        export const later = async () => {
          const local = 1;
          function inner() {}
        };
        export default function main(a = (1, 2), ...rest) {
          if (a) { call(function named() {}); }
          for (const k of rest) { }
          while (a) { }
          switch (a) { }
        }
        function* generator() { yield 1; }
        async function go() {}
        export class Stack extends mix(Base) {
          static #count = 0;
          items = [];
          handler = (event) => { this.items = [event]; };
          constructor(size) { super(size); }
          push(item, cb = () => done()) { return this; }
          get top() { return this.items[0]; }
          static async *walk() { }
          #secret() { return /[/'"`}]/.test("x"); }
        }
        const Anonymous = class {
          method() {}
        };
        const api = {
          fetch(url) { return `${url} ${ `function no() {` }`; },
          post: function (url) { },
          remove: async (url) => { },
          plain: 3,
        };
        module.exports = { main };
        Stack.prototype.peek = function () { };
        exports.helper = (x) => x;
        (function () { function wrapped() { } })();
        $.fn.plugin = function (options) { };
        const re = a / b / c, s = "function q() {";
        """
    assert outline_of("JavaScript", source) == expected("""
        constant LIMIT
        variable state
        function legacy
        function arrow
        function single
        function later
        function later.inner
        function main
        function main.named
        function generator
        function go
        class Stack
        field Stack.count
        field Stack.items
        method Stack.handler
        method Stack.constructor
        method Stack.push
        method Stack.top
        method Stack.walk
        method Stack.secret
        class Anonymous
        method Anonymous.method
        constant api
        method api.fetch
        property api.post
        property api.remove
        method peek
        method helper
        function wrapped
        method plugin
        constant re
    """)


def test_the_definitions_of_typescript() -> None:
    source = """\
        import type { A } from './a';
        export interface Shape<T = {}> extends Base {
          readonly name: string;
          area(scale?: number): number;
          handler: (event: Event) => void;
          optional?: T;
        }
        export type Handler<T = string> = (event: T) => void;
        type Union = 'a' | 'b';
        export enum Colour { Red, Green }
        export const enum Level {
          Low = 1,
          High = Low << 1,
        }
        declare module 'x' { export function declared(a: number): string; }
        namespace Outer.Inner {
          export const depth = 3;
          export function deep(): void {}
        }
        @Component({ selector: 'app' })
        export abstract class Widget<T extends object>
          extends Base<T>
          implements Shape<T> {
          private static readonly count: number = 0;
          public name!: string;
          items: Array<{ id: number }> = [];
          constructor(private readonly service: Service, callback: (x: number) => void) { super(); }
          abstract draw(canvas: Canvas): void;
          public async load<K extends keyof T>(key: K, options: { deep?: boolean } = {}): Promise<T[K]> {
            const local: number = 1;
            return call(key);
          }
          get size(): number { return 1; }
          onClick = (event: Event): void => { };
        }
        export function overload(a: string): string;
        export function overload(a: any): any { return a; }
        export const typed: Handler = (event) => { };
        export const generic = <T,>(x: T): T => x;
        let counter: number;
        """
    assert outline_of("TypeScript", source) == expected("""
        interface Shape
        property Shape.name
        method Shape.area
        property Shape.handler
        property Shape.optional
        alias Handler
        alias Union
        enum Colour
        enum Level
        enumerator Level.Low
        enumerator Level.High
        function declared
        namespace Outer.Inner
        constant Outer.Inner.depth
        function Outer.Inner.deep
        class Widget
        property Widget.count
        property Widget.name
        property Widget.items
        method Widget.constructor
        method Widget.draw
        method Widget.load
        method Widget.size
        method Widget.onClick
        function overload
        function overload
        function typed
        function generic
        variable counter
    """)


def test_tsx_is_typescript_with_markup() -> None:
    source = """\
        export const App: React.FC<Props> = ({ title }) => {
          const onClick = () => { };
          return <div className="a" onClick={onClick}>Don't {title}</div>;
        };
        function Row(props: Props) { return <tr />; }
        """
    assert outline_of("TSX", source) == ["function App", "function App.onClick", "function Row"]


def test_the_definitions_of_php() -> None:
    source = """\
        <?php
        namespace App\\\\Models;
        use Other\\\\Thing;
        # function no1() {}
        const VERSION = '1';
        $config = ['a' => 1];
        #[Attribute(flags: 1)]
        final class User extends Model implements JsonSerializable {
            use HasName;
            const LIMIT = 10;
            public static ?string $table = "users {";
            protected array $rows = [], $more;
            public function __construct(private readonly string $name) { $local = 1; }
            public static function &find(int $id): ?static { return new class { function anonymous() {} }; }
            abstract protected function run();
        }
        interface Shape { public function area(): float; }
        trait HasName { private $name; function name() { return User::class; } }
        enum Suit: string { case Hearts = 'H'; case Spades = 'S'; public function label(): string { return 'x'; } }
        function helper($a) { return function ($b) { return $b; }; }
        if (!function_exists('late')) { function late() {} }
        ?>
        <p>Don't { stop</p>
        """
    assert outline_of("PHP", source.replace("\\\\", "\\")) == expected("""
        namespace App\\Models
        constant VERSION
        variable config
        class User
        constant User.LIMIT
        property User.table
        property User.rows
        method User.__construct
        method User.find
        method find.anonymous
        method User.run
        interface Shape
        method Shape.area
        trait HasName
        property HasName.name
        method HasName.name
        enum Suit
        enumerator Suit.Hearts
        enumerator Suit.Spades
        method Suit.label
        function helper
        function late
    """)


def test_the_definitions_of_ruby() -> None:
    source = """\
        # def no; end
        =begin
        def neither; end
        =end
        require 'x'
        module Acme
          VERSION = "1.0 # def"
          class Robot < Base::Machine
            include Comparable
            attr_accessor :name, :age
            alias_method :label, :name
            def initialize(name)
              @name = name
              local = 1
            end
            def self.build(*args) = new(*args)
            private def secret? = true
            def ==(other)
              other.name == name
            end
            def []=(key, value); end
            class << self
              def create!; end
            end
            Point = Struct.new(:x, :y)
          end
        end
        def Acme.top; end
        """
    assert outline_of("Ruby", source) == expected("""
        module Acme
        constant Acme.VERSION
        class Acme.Robot
        accessor Robot.name
        alias Robot.label
        method Robot.initialize
        singleton method Robot.build
        method Robot.secret?
        method Robot.==
        method Robot.[]=
        method Robot.create!
        constant Robot.Point
        singleton method top
    """)


def test_the_definitions_of_lua() -> None:
    source = """\
        -- function no() end
        --[[ function neither()
        end ]]
        local Stack = {}
        Stack.__index = Stack
        function Stack.new(n) return setmetatable({}, Stack) end
        function Stack:push(item)
          local function helper() end
        end
        local function private(a) end
        Stack.pop = function(self) end
        local text = [==[ function raw() ]==]
        function global() end
        """
    assert outline_of("Lua", source) == expected("""
        variable Stack
        method Stack.new
        method Stack.push
        function push.helper
        function private
        method Stack.pop
        variable text
        function global
    """)


def test_the_definitions_of_perl() -> None:
    source = """\
        package Acme::Tool;
        use constant LIMIT => 10;
        our $VERSION = '1.0';
        sub new { my ($class) = @_; return bless {}, $class; }
        # sub no { }
        sub _private : lvalue {
        }

        =head1 NAME

        sub pod { }

        =cut

        sub after { }
        """
    assert outline_of("Perl", source) == expected("""
        package Acme::Tool
        constant LIMIT
        variable VERSION
        function new
        function _private
        function after
    """)


def test_the_definitions_of_elixir() -> None:
    source = '''\
        defmodule Acme.Tool do
          @moduledoc """
          def no, do: 1
          """
          @type id :: integer
          defstruct [:a]
          def run(x) when x > 0, do: x
          defp helper?(x) do
            x
          end
          defmacro build(x), do: x
          defmodule Inner do
            def deep, do: :ok
          end
        end
        '''
    assert outline_of("Elixir", source) == expected("""
        module Acme.Tool
        type Acme.Tool.id
        struct Acme.Tool.defstruct
        function Acme.Tool.run
        function Acme.Tool.helper?
        macro Acme.Tool.build
        module Acme.Tool.Inner
        function Inner.deep
    """)


def test_the_definitions_of_haskell() -> None:
    source = """\
        {- data No = No {- nested -} -}
        module Data.Stack (Stack, push) where
        import Data.List
        data Stack a = Empty | Node
          { top :: a
          , rest :: Stack a
          }
        newtype Wrapper = Wrapper Int
        type Name = String
        class Show a => Pretty a where
          pretty :: a -> String
        instance Pretty Int where
          pretty x = show x
        -- no :: Int
        push, shove' :: a -> Stack a -> Stack a
        push x s = go x
          where go y = Node y s
        """
    assert outline_of("Haskell", source) == expected("""
        module Data.Stack
        type Stack
        type Wrapper
        alias Name
        class Pretty
        method spec Pretty.pretty
        instance Pretty
        function push
    """)


def test_the_definitions_of_shell() -> None:
    source = """\
        #!/bin/bash
        # no() { }
        VERSION=1
        export PATH_X="a"
        greet() { local name=$1; echo "f() {"; }
        function stop {
          exit 1
        }
        function ns::go () { :; }
        alias ll='ls -l'
        """
    assert outline_of("Shell", source) == expected("""
        variable VERSION
        variable PATH_X
        function greet
        function stop
        function ns::go
        alias ll
    """)
