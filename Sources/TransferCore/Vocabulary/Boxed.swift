/// A value in a place of its own: copying what holds it copies one reference, and a change copies the value only where
/// somebody else holds it too. For values of many members that are handed on much more often than they are changed.
struct Boxed<Value: Hashable & Sendable>: Hashable, Sendable {
  /// SAFETY: changed only while one ``Boxed`` alone has it, and by its `_modify`, which is as exclusive as that of any
  /// struct.
  private final class Place: @unchecked Sendable {
    @exclusivity(unchecked) var value: Value
    init(_ value: Value) { unsafe self.value = value }
  }

  private var place: Place

  init(_ value: Value) { place = Place(value) }

  var value: Value {
    _read { yield unsafe place.value }
    _modify {
      if !isKnownUniquelyReferenced(&place) { place = unsafe Place(place.value) }
      yield unsafe &place.value
    }
  }

  static func == (left: Self, right: Self) -> Bool { left.place === right.place || left.value == right.value }

  func hash(into hasher: inout Hasher) { hasher.combine(value) }
}
