#if !canImport(Darwin)
  internal import Foundation
  public import Observation

  /// Keeps a value beside the value that it belongs to. A change has an app's scenes evaluated again.
  @propertyWrapper public struct State<Value>: DynamicProperty {
    private let box: StateBox<Value>

    /// Begins with that value.
    public init(wrappedValue: Value) { box = StateBox(wrappedValue) }
    /// Begins with that value.
    public init(initialValue: Value) { box = StateBox(initialValue) }

    /// The value; any thread.
    public var wrappedValue: Value {
      get { box.value }
      nonmutating set { box.value = newValue }
    }

    /// The value, to read and to write.
    public var projectedValue: Binding<Value> {
      Binding(get: { box.value }, set: { box.value = $0 })
    }
  }

  extension State where Value: ExpressibleByNilLiteral {
    /// Begins with nil.
    public init() { self.init(wrappedValue: nil) }
  }

  extension State: Sendable where Value: Sendable {}

  final class StateBox<Value>: @unchecked Sendable {
    private let lock = NSLock()
    // SAFETY: touched with `lock` locked. Values that are not Sendable are the business of who shares them.
    nonisolated(unsafe) private var stored: Value

    init(_ value: Value) { unsafe stored = value }

    var value: Value {
      get { lock.withLock { unsafe stored } }
      set {
        lock.withLock { unsafe stored = newValue }
        SceneInvalidation.request()
      }
    }
  }

  /// A value that is kept elsewhere, to read and to write.
  @propertyWrapper @dynamicMemberLookup public struct Binding<Value> {
    private let get: () -> Value
    private let set: (Value) -> Void

    /// A value with these two accesses.
    public init(get: @escaping () -> Value, set: @escaping (Value) -> Void) {
      self.get = get
      self.set = set
    }

    /// A value that never changes.
    public static func constant(_ value: Value) -> Binding<Value> { Binding(get: { value }, set: { _ in }) }

    /// The value.
    public var wrappedValue: Value {
      get { get() }
      nonmutating set { set(newValue) }
    }

    /// This.
    public var projectedValue: Binding<Value> { self }

    /// A member of the value, to read and to write.
    public subscript<Member>(dynamicMember path: WritableKeyPath<Value, Member>) -> Binding<Member> {
      Binding<Member>(get: { wrappedValue[keyPath: path] }, set: { wrappedValue[keyPath: path] = $0 })
    }
  }

  /// An object whose changes an interface follows. Here nothing follows them; use `@Observable` for values that an
  /// app's scenes depend on.
  public protocol ObservableObject: AnyObject {}

  /// Marks a property of an ``ObservableObject``.
  @propertyWrapper public struct Published<Value> {
    /// The value.
    public var wrappedValue: Value
    /// Begins with that value.
    public init(wrappedValue: Value) { self.wrappedValue = wrappedValue }
    /// Begins with that value.
    public init(initialValue: Value) { wrappedValue = initialValue }
  }

  extension Published: Sendable where Value: Sendable {}

  /// Keeps an object; it is made when it is first asked for.
  @MainActor @preconcurrency @propertyWrapper public struct StateObject<ObjectType: ObservableObject>: DynamicProperty {
    private final class Box {
      var make: (() -> ObjectType)?
      lazy var object: ObjectType? = make?()
      init(_ make: @escaping () -> ObjectType) { self.make = make }
    }
    private let box: Box

    /// Keeps what `wrappedValue` makes.
    public init(wrappedValue: @autoclosure @escaping () -> ObjectType) { box = Box(wrappedValue) }

    /// The object.
    public var wrappedValue: ObjectType {
      guard let object = box.object else { fatalError("The object of this StateObject was not made.") }
      return object
    }

    /// Bindings to the object's members.
    public var projectedValue: ObjectBindings<ObjectType> { ObjectBindings(object: wrappedValue) }
  }

  /// Refers to an object that something else keeps.
  @MainActor @preconcurrency @propertyWrapper
  public struct ObservedObject<ObjectType: ObservableObject>:
    DynamicProperty
  {
    /// The object.
    public var wrappedValue: ObjectType
    /// Refers to that object.
    public init(wrappedValue: ObjectType) { self.wrappedValue = wrappedValue }
    /// Bindings to the object's members.
    public var projectedValue: ObjectBindings<ObjectType> { ObjectBindings(object: wrappedValue) }
  }

  /// Refers to an object that a view before this one was given. No view is made here, so reading it ends the program,
  /// as on Apple's systems where none was given.
  @MainActor @preconcurrency @propertyWrapper
  public struct EnvironmentObject<ObjectType: ObservableObject>:
    DynamicProperty
  {
    /// Refers to the object of that type.
    public nonisolated init() {}
    /// The object.
    public var wrappedValue: ObjectType {
      fatalError("No ObservableObject of type \(ObjectType.self) found: no view is made on a machine without a screen.")
    }
    /// Bindings to the object's members.
    public var projectedValue: ObjectBindings<ObjectType> { ObjectBindings(object: wrappedValue) }
  }

  /// Bindings to the members of an object.
  @dynamicMemberLookup public struct ObjectBindings<ObjectType: AnyObject> {
    let object: ObjectType

    /// A member of the object, to read and to write.
    public subscript<Member>(dynamicMember path: ReferenceWritableKeyPath<ObjectType, Member>) -> Binding<Member> {
      Binding(get: { object[keyPath: path] }, set: { object[keyPath: path] = $0 })
    }
  }

  /// Gives bindings to the members of an `@Observable` object.
  @propertyWrapper public struct Bindable<Value: AnyObject & Observable> {
    /// The object.
    public var wrappedValue: Value
    /// Refers to that object.
    public init(wrappedValue: Value) { self.wrappedValue = wrappedValue }
    /// Refers to that object.
    public init(_ wrappedValue: Value) { self.wrappedValue = wrappedValue }
    /// Bindings to the object's members.
    public var projectedValue: ObjectBindings<Value> { ObjectBindings(object: wrappedValue) }
  }
#endif
