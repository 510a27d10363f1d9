import FerryClient
import Testing
import WireProtocol

@Suite struct SessionMirrorTests {
  private static func task(
    _ id: Int64, _ state: String = "running", received: Int64 = 0, sent: Int64 = 0, attempts: Int64 = 1,
    session: Int64 = 1
  ) -> TaskSnapshot {
    TaskSnapshot(
      id: id, session: "s", app: "a", sessionID: session, number: id, kind: "download", state: state, method: "GET",
      url: "http://localhost/\(id)", received: received, sent: sent, attempts: attempts, priority: 0.5,
      createdMilliseconds: 0)
  }

  private static func mirror() -> SessionMirror {
    var mirror = SessionMirror()
    _ = mirror.opened(SessionOpenResult(session: 1, nextTaskNumber: 1, isNew: true))
    return mirror
  }

  private static func progress(_ id: Int64, _ received: Int64) -> DaemonNotification {
    .taskProgress(TaskProgressNotice(id: id, received: received, expected: 100, sent: 0))
  }

  private static func delivery(_ number: Int64, _ kind: String = "completion", session: Int64 = 1) -> DaemonNotification
  {
    .delivery(DeliveryNotice(session: session, number: number, kind: kind, task: task(number, "succeeded")))
  }

  @Test func countersOnlyGrowWithinAnAttempt() {
    var mirror = Self.mirror()
    _ = mirror.apply(.taskState(TaskStateNotice(task: Self.task(1))))
    #expect(mirror.apply(Self.progress(1, 50)).count == 1)
    #expect(mirror.apply(Self.progress(1, 40)) == [])
    #expect(mirror.tasks[1]?.received == 50)
    // A state that was told earlier than the progress it follows.
    _ = mirror.apply(.taskState(TaskStateNotice(task: Self.task(1, received: 30))))
    #expect(mirror.tasks[1]?.received == 50)
    #expect(mirror.apply(Self.progress(1, 60)).count == 1)
  }

  @Test func aNewAttemptMayBeginLower() {
    var mirror = Self.mirror()
    _ = mirror.apply(.taskState(TaskStateNotice(task: Self.task(1, received: 50))))
    _ = mirror.apply(.taskState(TaskStateNotice(task: Self.task(1, received: 0, attempts: 2))))
    #expect(mirror.tasks[1]?.received == 0)
    _ = mirror.apply(Self.progress(1, 10))
    let resumed = mirror.apply(.taskResumed(TaskResumedNotice(id: 1, offset: 0, expected: 200)))
    #expect(resumed.count == 1)
    #expect(mirror.tasks[1]?.received == 0)
    #expect(mirror.tasks[1]?.expected == 200)
  }

  @Test func afterAReconnectTheDaemonMayKnowLessOnce() {
    var mirror = Self.mirror()
    _ = mirror.apply(.taskState(TaskStateNotice(task: Self.task(1, received: 90))))
    let isSame = mirror.opened(SessionOpenResult(session: 1, nextTaskNumber: 2, isNew: false))
    #expect(isSame)
    _ = mirror.apply(Self.progress(1, 64))
    #expect(mirror.tasks[1]?.received == 64)
    _ = mirror.apply(Self.progress(1, 60))
    #expect(mirror.tasks[1]?.received == 64)
  }

  @Test func theSameStateTwiceIsOneChange() {
    var mirror = Self.mirror()
    let notice = DaemonNotification.taskState(TaskStateNotice(task: Self.task(1)))
    #expect(mirror.apply(notice).count == 1)
    #expect(mirror.apply(notice) == [])
  }

  @Test func otherSessionsDoNotConcernIt() {
    var mirror = Self.mirror()
    #expect(mirror.apply(.taskState(TaskStateNotice(task: Self.task(1, session: 2)))) == [])
    #expect(mirror.apply(Self.progress(1, 5)) == [])
    #expect(mirror.apply(Self.delivery(1, session: 2)) == [])
    #expect(mirror.apply(.sessionEnded(SessionEndedNotice(session: 2))) == [])
    #expect(mirror.apply(.sessionEnded(SessionEndedNotice(session: 1))) == [.ended])
    #expect(mirror.tasks.isEmpty)
  }

  @Test func aDeliveryInHandIsNotShownTwice() {
    var mirror = Self.mirror()
    #expect(mirror.apply(Self.delivery(1)).count == 1)
    _ = mirror.opened(SessionOpenResult(session: 1, nextTaskNumber: 2, isNew: false))
    #expect(mirror.apply(Self.delivery(1)) == [])
    #expect(mirror.deliveries.inHand == [1])
  }

  @Test func aHandledDeliveryIsAcknowledgedAgainAndNotShown() {
    var mirror = Self.mirror()
    _ = mirror.apply(Self.delivery(1))
    mirror.deliveries.handled([1])
    #expect(mirror.apply(Self.delivery(1)) == [.acknowledgeAgain([1])])
    mirror.deliveries.confirmed([1])
    #expect(mirror.deliveries == DeliveryLedger())
  }

  /// Its sessions are counted from 1 again.
  @Test(arguments: [1, 9] as [Int64]) func aDaemonThatLostItsStateStartsAfresh(session: Int64) {
    var mirror = Self.mirror()
    _ = mirror.apply(Self.delivery(1))
    let isSame = mirror.opened(SessionOpenResult(session: session, nextTaskNumber: 1, isNew: true))
    #expect(!isSame)
    #expect(mirror.tasks.isEmpty)
    #expect(mirror.apply(Self.delivery(1, session: session)) == [] || mirror.deliveries.inHand == [1])
  }
}
