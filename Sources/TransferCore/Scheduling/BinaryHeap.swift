/// A binary heap with the least element on top. Inlinable, so that each user's own element type is compiled into it.
package struct BinaryHeap<Element: Comparable & Sendable & Hashable>: Hashable, Sendable {
  @usableFromInline package private(set) var elements: [Element]

  @inlinable package init() { elements = [] }

  @inlinable package init(_ elements: [Element]) {
    self.elements = elements
    guard elements.count > 1 else { return }
    for index in stride(from: elements.count / 2 - 1, through: 0, by: -1) { sink(index) }
  }

  @inlinable package var isEmpty: Bool { elements.isEmpty }
  @inlinable package var count: Int { elements.count }
  @inlinable package var top: Element? { elements.first }

  @inlinable package mutating func push(_ element: Element) {
    elements.append(element)
    var child = elements.count - 1
    while child > 0 {
      let parent = (child - 1) / 2
      guard elements[child] < elements[parent] else { return }
      elements.swapAt(child, parent)
      child = parent
    }
  }

  @inlinable package mutating func pop() -> Element? {
    guard let last = elements.popLast() else { return nil }
    guard let top = elements.first else { return last }
    elements[0] = last
    sink(0)
    return top
  }

  @inlinable mutating func sink(_ start: Int) {
    var parent = start
    while true {
      var child = 2 * parent + 1
      guard child < elements.count else { return }
      if child + 1 < elements.count, elements[child + 1] < elements[child] { child += 1 }
      guard elements[child] < elements[parent] else { return }
      elements.swapAt(child, parent)
      parent = child
    }
  }
}
