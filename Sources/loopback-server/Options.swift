/// The command line.
struct Options: Equatable {
  var port: UInt16 = 0
  var listensOnIPv6 = false
  var logPath: String?
  var asksForHelp = false

  struct UsageError: Error {
    let message: String
  }

  init(_ arguments: [String]) throws(UsageError) {
    var rest = arguments[...]
    while let argument = rest.popFirst() {
      let parts = argument.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      let name = String(parts[0])
      var inlineValue = parts.count > 1 ? String(parts[1]) : nil
      func value() throws(UsageError) -> String {
        guard let given = inlineValue ?? rest.popFirst(), !given.isEmpty else {
          throw UsageError(message: "\(name) needs a value")
        }
        inlineValue = nil
        return given
      }
      switch name {
      case "--port":
        let text = try value()
        guard let number = UInt16(text) else {
          throw UsageError(message: "--port takes a number from 0 (a free port) to 65535, not \"\(text)\"")
        }
        port = number
      case "--log": logPath = try value()
      case "--ipv6": listensOnIPv6 = true
      case "--help", "-h": asksForHelp = true
      default: throw UsageError(message: "unknown argument \"\(argument)\"")
      }
      if inlineValue != nil { throw UsageError(message: "\(name) takes no value") }
    }
  }

  static let help = """
    usage: loopback-server [--port N] [--ipv6] [--log FILE]

    An HTTP/1.1 server on 127.0.0.1 that misbehaves on request. The first line of its standard output is its address,
    http://127.0.0.1:PORT. SIGTERM or SIGINT ends it.

      --port N     the port; 0, the default, is a free one
      --ipv6       listen on [::1] too
      --log FILE   append the log to FILE instead of writing it to standard output (where lines that nobody reads in
                   time are dropped)

    Each request adds one line to the log when it has ended:
      METHOD TARGET STATUS range=RANGE sent=BYTES end=END
    RANGE is the Range field with blanks as %20, STATUS and RANGE are "-" when there is none, BYTES are bytes of body.
    END is complete, cut, reset, unanswered, client-left, bad-request or stopped.

    What it serves; parameters that are not known are answered with 400:
      /bytes/N          N bytes that differ by seed and offset. Parameters:
          seed=S        version of the content (1)
          rate=BYTES    send BYTES, wait, send BYTES ...
          every=MS      the wait (1000)
          delay=MS      wait before the head
          cut=N         close after N bytes of body          reset=N   reset after N bytes of body
          stall=N       after N bytes of body send nothing more until the client leaves
          etag=E        strong (default), weak, none, or the tag itself without quotation marks
          modified=AGE  Last-Modified, AGE seconds ago
          norange=1     ignore Range                         noifrange=1  ignore If-Range
          chunked=1     chunked coding                       nolength=1   ends with the connection
          gzip=1        Content-Encoding: gzip (at most 64 MiB, made in memory)
          status=CODE   answer CODE instead                  retry-after=V  with this Retry-After
      /digest/N?seed=S  FNV-1a (64 bits, hexadecimal) of /bytes/N
      /redirect?to=URL&status=CODE   (302)
      /status/CODE?retry-after=V
      /upload           reads the body, answers "METHOD PATH N bytes". Parameters: rate, every (reading), cut, reset,
                        stall (after N bytes of the request's body), early=CODE (answer CODE without reading), and
                        status=CODE (answer CODE after reading)
      /echo             the body of the request (at most 1 MiB)
      /headers          the request line and header fields as received
    """
}
