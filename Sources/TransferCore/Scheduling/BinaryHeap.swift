/// A binary heap with the least element on top.
package struct BinaryHeap<Element: Comparable & Sendable & Hashable>: Hashable, Sendable {
  package private(set) var elements: [Element]

  package init() { elements = [] }

  package init(_ elements: [Element]) {
    self.elements = elements
    guard elements.count > 1 else { return }
    for index in stride(from: elements.count / 2 - 1, through: 0, by: -1) { sink(index) }
  }

  package var isEmpty: Bool { elements.isEmpty }
  package var count: Int { elements.count }
  package var top: Element? { elements.first }

  package mutating func push(_ element: Element) {
    elements.append(element)
    var child = elements.count - 1
    while child > 0 {
      let parent = (child - 1) / 2
      guard elements[child] < elements[parent] else { return }
      elements.swapAt(child, parent)
      child = parent
    }
  }

  package mutating func pop() -> Element? {
    guard let last = elements.popLast() else { return nil }
    guard let top = elements.first else { return last }
    elements[0] = last
    sink(0)
    return top
  }

  private mutating func sink(_ start: Int) {
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
