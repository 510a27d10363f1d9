import CCurl
import TransferCore

/// One libcurl easy handle, freed with this object. The first option that fails is remembered, so that a list of
/// options is set without a check after each.
@safe final class EasyHandle {
  let raw: UnsafeMutableRawPointer
  private var list: UnsafeMutablePointer<curl_slist>?
  private let errorBuffer: UnsafeMutablePointer<CChar>
  private(set) var status = CURLE_OK
  private(set) var failedOption: UInt32 = 0

  /// Nil when there is no memory.
  init?() {
    guard let raw = unsafe curl_easy_init() else { return nil }
    unsafe self.raw = raw
    unsafe self.list = nil
    unsafe errorBuffer = .allocate(capacity: Int(CURL_ERROR_SIZE))
    unsafe errorBuffer.initialize(repeating: 0, count: Int(CURL_ERROR_SIZE))
    collectErrorText()
  }

  private func collectErrorText() {
    unsafe errorBuffer[0] = 0
    unsafe set(CURLOPT_ERRORBUFFER, pointer: UnsafeMutableRawPointer(errorBuffer))
  }

  /// libcurl's own words on the last error. They can hold names, URLs and credentials: to classify by, not to show.
  var errorText: String { unsafe String(cString: errorBuffer) }

  deinit {
    unsafe curl_easy_cleanup(raw)
    unsafe curl_slist_free_all(list)
    unsafe errorBuffer.deallocate()
  }

  func set(_ option: CURLoption, _ value: Int) { note(option, unsafe ccurl_set_long(raw, option, value)) }
  func set(_ option: CURLoption, _ value: Bool) { set(option, value ? 1 : 0) }
  func set(_ option: CURLoption, bytes value: Int64) {
    note(option, unsafe ccurl_set_offset(raw, option, curl_off_t(value)))
  }
  func set(_ option: CURLoption, _ value: String) { note(option, unsafe ccurl_set_string(raw, option, value)) }
  func setNull(_ option: CURLoption) { note(option, unsafe ccurl_set_string(raw, option, nil)) }
  func set(_ option: CURLoption, pointer value: UnsafeMutableRawPointer) {
    note(option, unsafe ccurl_set_pointer(raw, option, value))
  }
  func set(_ option: CURLoption, function value: @escaping ccurl_data_function) {
    note(option, unsafe ccurl_set_data_function(raw, option, value))
  }

  /// Request header lines. libcurl does not copy the list, so it lives as long as the handle.
  func setHeaderLines(_ lines: [String]) {
    for line in lines {
      guard let longer = unsafe curl_slist_append(list, line) else {
        return note(CURLOPT_HTTPHEADER, CURLE_OUT_OF_MEMORY)
      }
      unsafe list = longer
    }
    note(CURLOPT_HTTPHEADER, unsafe ccurl_set_list(raw, CURLOPT_HTTPHEADER, list))
  }

  func note(_ option: CURLoption, _ result: CURLcode) {
    if status == CURLE_OK, result != CURLE_OK {
      status = result
      failedOption = option.rawValue
    }
  }

  func long(_ what: CURLINFO) -> Int {
    var value = 0
    return unsafe ccurl_get_long(raw, what, &value) == CURLE_OK ? value : 0
  }

  func bytes(_ what: CURLINFO) -> Int64 {
    var value: curl_off_t = 0
    return unsafe ccurl_get_offset(raw, what, &value) == CURLE_OK ? Int64(value) : 0
  }

  /// Nil where libcurl knows nothing, or an empty text.
  func text(_ what: CURLINFO) -> String? {
    var value: UnsafeMutablePointer<CChar>?
    guard unsafe ccurl_get_pointer(raw, what, &value) == CURLE_OK, let value = unsafe value else { return nil }
    // SAFETY: a NUL-terminated text of the handle's own; it is copied at once.
    let text = unsafe String(cString: value)
    return text.isEmpty ? nil : text
  }
}
