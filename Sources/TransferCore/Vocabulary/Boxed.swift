/// A value in a place of its own: copies share it until one of them is changed. What holds it stays small, and is moved
/// and copied cheaply.
///
/// It is read where it stands, by addressors: a `_read` coroutine copies a value of this size into its frame, and the
/// compiler (6.3) reads members of it after the frame is gone.
struct Boxed<Value: Hashable & Sendable>: Hashable, Sendable {
  private final class Place: ManagedBuffer<Void, Value> {
    deinit { unsafe address.deinitialize(count: 1) }

    static func holding(_ value: Value) -> Place {
      // SAFETY: `create` makes an object of the class that it is called on.
      let place = unsafe unsafeDowncast(create(minimumCapacity: 1) { _ in () }, to: Place.self)
      unsafe place.address.initialize(to: value)
      return place
    }

    /// Of the one element, which is initialized all the time but for the moment of its making.
    var address: UnsafeMutablePointer<Value> { unsafe withUnsafeMutablePointerToElements { unsafe $0 } }
  }

  /// SAFETY: changed only while one ``Boxed`` alone has it, by an access that is as exclusive as that of any struct.
  nonisolated(unsafe) private var place: Place

  init(_ value: Value) { unsafe place = .holding(value) }

  /// Where the value stands.
  var address: UnsafePointer<Value> { unsafe UnsafePointer(place.address) }

  /// The same of a place that no other box shares.
  var ownAddress: UnsafeMutablePointer<Value> {
    mutating get {
      if unsafe !isKnownUniquelyReferenced(&place) { unsafe place = .holding(place.address.pointee) }
      return unsafe place.address
    }
  }

  var value: Value {
    // SAFETY: who reads or changes the value keeps this box, and with it the place, for as long.
    unsafeAddress { unsafe address }
    unsafeMutableAddress { unsafe ownAddress }
  }

  static func == (left: Self, right: Self) -> Bool {
    unsafe left.place === right.place || left.value == right.value
  }

  func hash(into hasher: inout Hasher) { hasher.combine(value) }
}
