"""Java, C#, Kotlin, Scala, Swift, Dart: classes in classes, annotations, generics, bodies that hide code."""

from tests.search.symbols.outlines import expected, outline_of


def test_the_definitions_of_java() -> None:
    source = """\
        package com.example.app;

        import java.util.Map;

        /** class NotMe { void neither() {} } */
        @Entity(name = "thing", value = {1, 2})
        public final class Thing<T extends Comparable<T>> extends Base<T> implements One, Two {
            private static final Map<String, List<Integer>> CACHE = new HashMap<String, List<Integer>>();
            int a = 1, b[];
            String text = "{ class InString {";

            static { CACHE.clear(); }

            public Thing(int a) throws IOException { this.a = a; }

            @Override
            @SuppressWarnings({"unchecked", "rawtypes"})
            public <R> R map(Function<? super T, ? extends R> f,
                             int times) throws A, B {
                class Local { void hidden() {} }
                int local = 3;
                if (times > 0) { return f.apply(null); }
                return new Object() { void anonymous() {} };
            }

            protected abstract int size();

            enum Level {
                LOW(1), MIDDLE { int weight() { return 2; } }, HIGH;

                private final int weight;
                Level() { this(0); }
                Level(int weight) { this.weight = weight; }
            }

            interface Visitor { void visit(Thing<?> t); int DEPTH = 3; default void done() { } }
            record Point(int x, int y) { Point { check(x); } double norm() { return 0; } }
            @interface Marker { String value() default ""; }
            String block = \"\"\"
                class InText { }
                \"\"\";
        }
        """
    assert outline_of("Java", source) == expected("""
        package com.example.app
        class Thing
        field Thing.CACHE
        field Thing.a
        field Thing.text
        method Thing.Thing
        method Thing.map
        method Thing.size
        enum Thing.Level
        enumerator Level.LOW
        enumerator Level.MIDDLE
        enumerator Level.HIGH
        field Level.weight
        method Level.Level
        method Level.Level
        interface Thing.Visitor
        method Visitor.visit
        constant Visitor.DEPTH
        method Visitor.done
        record Thing.Point
        method Point.norm
        annotation Thing.Marker
        method Marker.value
        field Thing.block
    """)


def test_the_definitions_of_csharp() -> None:
    source = """\
        using System;
        namespace Acme.Tools
        {
            [Serializable, Obsolete("class Not {")]
            public sealed partial class Robot<T> : Machine, IWalker where T : class, new()
            {
                #region Fields
                private readonly Dictionary<string, int> parts = new Dictionary<string, int>();
                public const int Legs = 2;
                #endregion
                public event EventHandler Moved;
                public delegate void Handler(object sender);
                public string Name { get; private set; } = "x";
                public int Count => parts.Count;
                public Robot(string name) : base(name) { Name = name; }
                public async Task<int> WalkAsync<TArg>(int steps, string path = @"C:\\") where TArg : class
                {
                    int local = 1;
                    var text = $"{local} {{";
                    return await Task.FromResult(local);
                }
                public override string ToString() => $"robot {Name}";
                protected abstract void Stop();
                private enum Mode { Idle, Busy = 3, }
                public struct Part { public int Weight; }
            }
            public interface IWalker { Task<int> WalkAsync<T>(int steps, string path); int Speed { get; } }
            public record Person(string First, string Last);
        }
        """
    assert outline_of("C#", source) == expected("""
        namespace Acme.Tools
        class Acme.Tools.Robot
        field Robot.parts
        field Robot.Legs
        event Robot.Moved
        delegate Robot.Handler
        property Robot.Name
        field Robot.Count
        method Robot.Robot
        method Robot.WalkAsync
        method Robot.ToString
        method Robot.Stop
        enum Robot.Mode
        enumerator Mode.Idle
        enumerator Mode.Busy
        struct Robot.Part
        field Part.Weight
        interface Acme.Tools.IWalker
        method IWalker.WalkAsync
        property IWalker.Speed
        record Acme.Tools.Person
    """)


def test_the_definitions_of_kotlin() -> None:
    source = """\
        package com.example

        import kotlin.math.max

        const val LIMIT = 3
        val top: Int by lazy { compute("class No {") }
        typealias Handler = (Int) -> Unit

        @Serializable(with = X::class)
        data class User(val name: String, var age: Int = 3) : Base(), Named {
            private val cache = mutableMapOf<String, Int>()
            init { println("${name.map { it }} }") }
            constructor() : this("x")
            override fun toString(): String = "User($name)"
            suspend fun <T> load(block: () -> T): T { val local = 1; return block() }
            companion object Factory { fun create() = User("a") }
            enum class Role { ADMIN, GUEST(2) { override fun x() = 1 }; fun x() = 0 }
            inner class Deep { fun deep() {} }
        }

        sealed interface Shape { val area: Double }
        fun interface Check { fun check(x: Int): Boolean }
        object Single { var state = 0 }
        fun String.shout(): String = uppercase()
        internal inline fun <reified T> Iterable<T>.firstOf() = first { it is T }
        annotation class Marked
        class Empty
        fun after() { }
        """
    assert outline_of("Kotlin", source) == expected("""
        package com.example
        constant LIMIT
        variable top
        alias Handler
        class User
        property User.cache
        method User.toString
        method User.load
        object User.Factory
        method Factory.create
        enum User.Role
        enumerator Role.ADMIN
        enumerator Role.GUEST
        method Role.x
        class User.Deep
        method Deep.deep
        interface Shape
        property Shape.area
        interface Check
        method Check.check
        object Single
        property Single.state
        function shout
        function firstOf
        annotation Marked
        class Empty
        function after
    """)


def test_the_definitions_of_swift() -> None:
    source = """\
        import Foundation

        #if DEBUG
        let isDebug = true
        #endif

        protocol Drawable: AnyObject {
            associatedtype Canvas
            var size: Int { get }
            func draw(on canvas: Canvas)
        }

        @objc(Thing)
        public final class Thing<T: Hashable>: Base, Drawable {
            static let shared = Thing()
            private var items: [String: [Int]] = [:]
            var count: Int { let local = 1; return local }
            init?(name: String) { self.name = "\\(name.map { "}" })" }
            deinit { }
            class func make() -> Thing { Thing() }
            func draw<C>(on canvas: C) where C: AnyObject { func inner() {} }
            static func == (a: Thing, b: Thing) -> Bool { true }
            subscript(i: Int) -> Int { 0 }
            enum Kind: String { case small, large; case custom(Int); indirect case tree(Kind) }
            struct Part { var weight = 1 }
        }

        extension Thing: Codable { func encode() {} }
        typealias Handler = (Int) -> Void
        actor Store { var x = 0 }
        func top(_ a: Int) -> Int { return a }
        """
    assert outline_of("Swift", source) == expected("""
        variable isDebug
        protocol Drawable
        alias Drawable.Canvas
        property Drawable.size
        method Drawable.draw
        class Thing
        property Thing.shared
        property Thing.items
        property Thing.count
        constructor Thing.init
        method Thing.make
        method Thing.draw
        method Thing.==
        enum Thing.Kind
        enumerator Kind.small
        enumerator Kind.large
        enumerator Kind.custom
        enumerator Kind.tree
        struct Thing.Part
        property Part.weight
        extension Thing
        method Thing.encode
        alias Handler
        class Store
        property Store.x
        function top
    """)


def test_the_definitions_of_scala() -> None:
    source = """\
        package com.example

        sealed trait Shape {
          def area: Double
          type Unit2 = Int
        }
        final case class Circle(r: Double) extends Shape {
          override def area: Double = {
            val local = 3.14
            def inner(x: Int) = x
            local * r
          }
          private[this] val cached = area
          lazy val later: String = \"\"\"def notMe = 1\"\"\"
        }
        object Circle {
          implicit def fromInt(i: Int): Circle = Circle(i)
          def +(other: Circle): Circle = other
        }
        enum Colour:
          case Red, Green
          case Mixed(a: Int)
        class Braceless:
          def method(x: Int): Int =
            x match
              case Some(y) => y
        given ordering: Ordering[Int] with
          def compare(a: Int, b: Int) = 0
        """
    assert outline_of("Scala", source) == expected("""
        package com.example
        trait Shape
        method Shape.area
        type Shape.Unit2
        class Circle
        method Circle.area
        function area.inner
        variable Circle.cached
        variable Circle.later
        object Circle
        method Circle.fromInt
        method Circle.+
        enum Colour
        enumerator Colour.Red
        enumerator Colour.Mixed
        class Braceless
        method Braceless.method
        instance ordering
        method ordering.compare
    """)


def test_the_definitions_of_dart() -> None:
    source = """\
        import 'package:x/x.dart';
        typedef Callback = void Function(int);
        abstract class Animal extends Base with Walks implements Named {
          final String name;
          static const int legs = 4;
          Animal(this.name);
          Animal.named(String n) : name = n { print('class No {'); }
          String get label => 'animal $name';
          void speak() { int local = 1; }
          Future<int> run() async { return 1; }
        }
        mixin Walks on Animal { void walk() {} }
        enum Colour { red, green }
        extension Shout on String { String shout() => toUpperCase(); }
        void main() {}
        """
    assert outline_of("Dart", source) == expected("""
        type Callback
        class Animal
        field Animal.name
        field Animal.legs
        method Animal.named
        accessor Animal.label
        method Animal.speak
        method Animal.run
        trait Walks
        method Walks.walk
        enum Colour
        enumerator Colour.red
        enumerator Colour.green
        extension Shout
        method Shout.shout
        function main
    """)
