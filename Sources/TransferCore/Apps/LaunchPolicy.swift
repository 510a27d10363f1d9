/// How often, and for how long, the daemon starts an app: Apple's resume rate limiter (apple-api 1.6) with a bound.
package struct LaunchPolicy: Hashable, Sendable {
  /// What must pass after the first launch; it doubles with each further one. Observed on iOS: 60, 120, 240 s.
  package var firstDelay = Duration.seconds(60)
  /// The delay grows no further: an app that is broken for a week is tried some forty times, until its results'
  /// retention ends.
  package var longestDelay = Duration.seconds(4 * 3600)
  /// How long a launched app may take to attach, collect and report.
  package var grant = Duration.seconds(30)
  /// Between the request to end and the end by force.
  package var terminationGrace = Duration.seconds(5)
  /// How long a daemon that has started waits before its first launch: the processes of its predecessor connect again
  /// within seconds, and must not meet a second one of their kind.
  package var restartGrace = Duration.seconds(5)
  /// How long the last words of a process that has ended may be on their way through its connection.
  package var lastWordsGrace = Duration.seconds(1)

  package init() {}

  package static let standard = LaunchPolicy()

  /// The delay that follows a launch before which the app had this one: 0, d, 2d, 4d …
  package func delay(after delay: Duration) -> Duration {
    delay == .zero ? firstDelay : min(max(delay, firstDelay) * 2, longestDelay)
  }
}
