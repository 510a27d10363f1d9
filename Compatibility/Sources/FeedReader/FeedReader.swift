// A SwiftUI app that refreshes its feed with a background session.
//
//   FeedReader            (an app has no arguments; the feed's addresses are in feeds.txt in its caches folder)
//
// Its author expects: started by a person it becomes active and begins its downloads; when its process is gone and the
// downloads have ended, it is launched in the background, its scene phase stays `background`, the closure of
// backgroundTask(.urlSession) runs, gets all results through the session's delegate, and when it returns the app is
// left alone.

import AppLifecycle

final class FeedStore: NSObject, URLSessionDownloadDelegate, @unchecked Sendable {
  static let shared = FeedStore()
  static let sessionIdentifier = "com.example.feedreader.refresh"

  let folder = FileManager.default.urls(for: .cachesDirectory, in: .userDomainMask)[0]
  private let lock = NSLock()
  private var whenFinished: CheckedContinuation<Void, Never>?
  private var hasFinished = false
  private lazy var session = URLSession(
    configuration: .background(withIdentifier: Self.sessionIdentifier), delegate: self, delegateQueue: nil)

  func note(_ line: String) {
    lock.withLock {
      let file = folder.appendingPathComponent("diary.txt")
      let text = (try? String(contentsOf: file, encoding: .utf8)) ?? ""
      try? (text + line + "\n").write(to: file, atomically: true, encoding: .utf8)
    }
  }

  func refresh() {
    let text = (try? String(contentsOf: folder.appendingPathComponent("feeds.txt"), encoding: .utf8)) ?? ""
    for line in text.split(separator: "\n") {
      guard let url = URL(string: String(line)) else { continue }
      session.downloadTask(with: url).resume()
      note("asked for \(url.lastPathComponent)")
    }
  }

  func collectEvents() async {
    _ = session
    await withCheckedContinuation { continuation in
      let isThere = lock.withLock {
        if !hasFinished { whenFinished = continuation }
        return hasFinished
      }
      if isThere { continuation.resume() }
    }
  }

  func urlSession(
    _ session: URLSession, downloadTask: URLSessionDownloadTask, didFinishDownloadingTo location: URL
  ) {
    let name = downloadTask.originalRequest?.url?.lastPathComponent ?? "feed"
    try? FileManager.default.moveItem(at: location, to: folder.appendingPathComponent(name))
    note("file \(name)")
  }

  func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
    note("complete \(task.taskIdentifier) \(error.map { "\($0)" } ?? "nil")")
  }

  func urlSessionDidFinishEvents(forBackgroundURLSession session: URLSession) {
    note("finished events")
    lock.withLock {
      hasFinished = true
      whenFinished?.resume()
      whenFinished = nil
    }
  }
}

struct ContentView: View {
  @State private var selection: String?

  var body: some View {
    NavigationStack {
      List(["News", "Sport"], id: \.self) { name in
        HStack {
          Text(name).font(.headline)
          Spacer()
          if name == selection { ProgressView() }
        }
      }
      .navigationTitle("Feeds")
      .toolbar { Button("Refresh", systemImage: "arrow.clockwise") { FeedStore.shared.refresh() } }
    }
  }
}

@main
struct FeedReader: App {
  @Environment(\.scenePhase) private var scenePhase

  init() { FeedStore.shared.note("launched") }

  var body: some Scene {
    WindowGroup {
      ContentView()
    }
    .onChange(of: scenePhase) { _, phase in
      FeedStore.shared.note("phase \(phase)")
      if phase == .active { FeedStore.shared.refresh() }
    }
    .backgroundTask(.urlSession(FeedStore.sessionIdentifier)) {
      FeedStore.shared.note("background task")
      await FeedStore.shared.collectEvents()
      FeedStore.shared.note("handled")
    }
  }
}
