// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// chunk is the text of one document.
type chunk struct {
	text []byte
	line int // of the file, that the text begins in; from 1
}

// split cuts a file into documents: at YAML's markers, and between JSON values that
// stand one after the other. Documents are parsed one by one, so that one that is broken leaves
// the others alone; a YAML parser gives up on the rest of the stream.
func split(data []byte) []chunk {
	var chunks []chunk
	for _, c := range splitYAML(data) {
		chunks = append(chunks, splitJSON(c)...)
	}
	return chunks
}

// splitYAML cuts at the lines that begin with a marker, "---" or "...". YAML allows
// these at the beginning of a line nowhere else, not even in a block of text. The marker
// stays at the head of its document, since content may follow it in the line.
func splitYAML(data []byte) []chunk {
	var chunks []chunk
	current := chunk{line: 1}
	start, line := 0, 1
	for at := 0; at < len(data); line++ {
		end := at + lineLength(data[at:])
		if isMarker(data[at:end]) {
			current.text = data[start:at]
			chunks = appendHead(chunks, current)
			start, current = at, chunk{line: line}
		}
		at = end
	}
	current.text = data[start:]
	return appendHead(chunks, current)
}

// appendHead appends a document, except that what comes before a file's first marker is none if
// it has only comments and directives. The marker "..." ends a document and begins one only where
// something follows it.
func appendHead(chunks []chunk, c chunk) []chunk {
	if !bytes.HasPrefix(c.text, []byte("---")) {
		text := bytes.TrimPrefix(c.text, []byte("..."))
		if !hasContent(text) {
			return chunks
		}
		if len(text) < len(c.text) {
			c.text = append([]byte("   "), text...)
		}
	}
	return append(chunks, c)
}

// lineLength returns the length of the first line with its line break.
func lineLength(data []byte) int {
	for i := range data {
		if n := breakLength(data[i:]); n > 0 {
			return i + n
		}
	}
	return len(data)
}

// breakLength returns the length of the line break that s begins with, or 0. The line
// breaks are those that the YAML parser knows.
func breakLength(s []byte) int {
	switch s[0] {
	case '\n':
		return 1
	case '\r':
		if len(s) > 1 && s[1] == '\n' {
			return 2
		}
		return 1
	case 0xc2, 0xe2: // the first bytes of what follows
		for _, b := range []string{"\u0085", "\u2028", "\u2029"} {
			if bytes.HasPrefix(s, []byte(b)) {
				return len(b)
			}
		}
	}
	return 0
}

// isMarker reports whether the line is a document marker: "---" or "...", and then the
// end of the line or white space.
func isMarker(line []byte) bool {
	if !bytes.HasPrefix(line, []byte("---")) && !bytes.HasPrefix(line, []byte("...")) {
		return false
	}
	rest := line[3:]
	return len(rest) == 0 || rest[0] == ' ' || rest[0] == '\t' || breakLength(rest) > 0
}

// hasContent reports whether there is anything but white space, comments and directives.
func hasContent(text []byte) bool {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	for len(text) > 0 {
		n := lineLength(text)
		line := bytes.TrimSpace(text[:n])
		if len(line) > 0 && line[0] != '#' && text[0] != '%' {
			return true
		}
		text = text[n:]
	}
	return false
}

// splitJSON cuts a text that begins with JSON objects into these and the rest.
func splitJSON(c chunk) []chunk {
	if !bytes.HasPrefix(bytes.TrimSpace(c.text), []byte("{")) {
		return []chunk{c}
	}
	var chunks []chunk
	decoder := json.NewDecoder(bytes.NewReader(c.text))
	for at := 0; ; {
		var value json.RawMessage
		err := decoder.Decode(&value)
		end := int(decoder.InputOffset())
		if err != nil {
			rest := chunk{text: c.text[at:], line: c.line + bytes.Count(c.text[:at], []byte("\n"))}
			if len(chunks) == 0 || hasContent(rest.text) {
				chunks = append(chunks, rest)
			}
			return chunks
		}
		// JSON allows tabs between its tokens, and YAML does not; in strings there are none.
		text := bytes.ReplaceAll(c.text[at:end], []byte("\t"), []byte(" "))
		chunks = append(chunks, chunk{text: unescape(text), line: c.line + bytes.Count(c.text[:at], []byte("\n"))})
		at = end
	}
}

// unescape replaces the escapes of JSON text that YAML does not have: that of a slash, and two
// that stand for one character beyond 16 bits. Half of such a pair stays, for the parser to refuse.
func unescape(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		if text[0] != '\\' || len(text) < 2 {
			out, text = append(out, text[0]), text[1:]
			continue
		}
		if text[1] == '/' {
			out, text = append(out, '/'), text[2:]
			continue
		}
		if r := utf16.DecodeRune(unit(text), unit(text[min(6, len(text)):])); r != utf8.RuneError {
			out, text = utf8.AppendRune(out, r), text[12:]
			continue
		}
		out, text = append(out, text[:2]...), text[2:]
	}
	return out
}

// unit returns the 16 bits that the text begins with an escape of, or 0.
func unit(text []byte) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil {
		return 0
	}
	return rune(n)
}
