import Testing
import TransferCore
import TransferDaemon

@Suite struct LoadQueueTests {
  @Test func eachIsTakenOnceAndTheNewestNeedNotWaitForAll() {
    var words = RandomWords(seed: 5)
    var queue = LoadQueue()
    var waiting: [TaskID] = []
    var last = Int64(0)
    for _ in 0..<2000 {
      for _ in 0..<words.next() % 12 {
        last += 1
        queue.append(TaskID(rawValue: last))
        waiting.append(TaskID(rawValue: last))
      }
      let limit = Int(words.next() % 10) + 1
      let taken = queue.take(limit)
      #expect(taken.count == min(limit, waiting.count) && Set(taken).count == taken.count)
      #expect(taken.allSatisfy(waiting.contains))
      if let oldest = waiting.first { #expect(taken.contains(oldest)) }
      if limit > 1, let newest = waiting.last { #expect(taken.contains(newest)) }
      waiting.removeAll(where: taken.contains)
      #expect(queue.isEmpty == waiting.isEmpty)
    }
  }
}
