// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// chunk is the text of one document.
type chunk struct {
	text []byte
	line int // the line of the file at which the text begins, from 1
}

// byteOrderMark may be at the beginning of a file.
const byteOrderMark = "\ufeff"

// split splits a file into documents: first the JSON values at its beginning, and then at YAML's
// markers. Documents are parsed one by one, so that a syntax error affects only one of them: a YAML
// parser ignores the rest of a stream.
//
// JSON comes first, because its strings may contain a marker.
func split(data []byte) []chunk {
	rest := chunk{text: bytes.TrimPrefix(data, []byte(byteOrderMark)), line: 1}
	var chunks []chunk
	for {
		value, n, ok := cutJSON(rest)
		if !ok {
			return append(chunks, splitYAML(rest)...)
		}
		chunks = append(chunks, value)
		rest = chunk{text: rest.text[n:], line: rest.line + bytes.Count(rest.text[:n], []byte("\n"))}
	}
}

// splitYAML splits the text at lines that begin with a marker, "---" or "...". In YAML, no other
// line begins with these, not even in a block of text. The marker stays at the beginning of its
// document, because content may follow it in the line. If a document is a JSON value, it becomes a
// chunk of its own.
func splitYAML(c chunk) []chunk {
	var chunks []chunk
	data, current := c.text, chunk{line: c.line}
	start, line := 0, c.line
	for at := 0; at < len(data); line++ {
		end := at + lineLength(data[at:])
		if isMarker(data[at:end]) {
			current.text = data[start:at]
			chunks = appendHead(chunks, current)
			start, current = at, chunk{line: line}
			if value, n, ok := jsonDocument(chunk{text: data[end:], line: line + 1}, data[at:end]); ok {
				chunks = append(chunks, value)
				line += bytes.Count(data[end:end+n], []byte("\n"))
				start, current.line = end+n, line+1
				end += n
			}
		}
		at = end
	}
	current.text = data[start:]
	return appendHead(chunks, current)
}

// jsonDocument returns the JSON value that is the whole document after the line of a marker. It
// looks for one only if that line ends as a line of JSON can end. No string of JSON contains such
// an end, so no text is scanned twice.
func jsonDocument(c chunk, marker []byte) (value chunk, n int, ok bool) {
	if !bytes.HasPrefix(marker, []byte("---")) || !bytes.HasSuffix(marker, []byte("\n")) ||
		len(bytes.TrimSpace(marker[3:])) > 0 {
		return chunk{}, 0, false
	}
	value, n, ok = cutJSON(c)
	end := n
	for ok && end < len(c.text) && (end == n || !isMarker(c.text[end:])) {
		length := lineLength(c.text[end:])
		ok = !hasContent(c.text[end : end+length])
		end += length
	}
	return value, n, ok
}

// appendHead appends a document. Before the first marker of a file, a text of only comments and
// directives is not a document. The marker "..." ends a document. It begins one only if content
// follows.
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

// breakLength returns the length of the line break at the beginning of s, or 0. The line breaks are
// those of the YAML parser.
func breakLength(s []byte) int {
	switch s[0] {
	case '\n':
		return 1
	case '\r':
		if len(s) > 1 && s[1] == '\n' {
			return 2
		}
		return 1
	case 0xc2, 0xe2: // the first bytes of the other line breaks
		for _, b := range []string{"\u0085", "\u2028", "\u2029"} {
			if bytes.HasPrefix(s, []byte(b)) {
				return len(b)
			}
		}
	}
	return 0
}

// isMarker reports whether the line is a document marker: "---" or "...", followed by the end of
// the line or white space.
func isMarker(line []byte) bool {
	if !bytes.HasPrefix(line, []byte("---")) && !bytes.HasPrefix(line, []byte("...")) {
		return false
	}
	rest := line[3:]
	return len(rest) == 0 || rest[0] == ' ' || rest[0] == '\t' || breakLength(rest) > 0
}

// hasContent reports whether the text has anything but white space, comments and directives.
func hasContent(text []byte) bool {
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

// cutJSON returns the JSON object at the beginning of a text, and its length.
func cutJSON(c chunk) (value chunk, n int, ok bool) {
	blank := len(c.text) - len(bytes.TrimLeft(c.text, " \t\r\n"))
	if !bytes.HasPrefix(c.text[blank:], []byte("{")) {
		return chunk{}, 0, false
	}
	decoder := json.NewDecoder(bytes.NewReader(c.text))
	var raw json.RawMessage
	if decoder.Decode(&raw) != nil {
		return chunk{}, 0, false
	}
	line := c.line + bytes.Count(c.text[:blank], []byte("\n"))
	return chunk{text: asYAML(raw), line: line}, int(decoder.InputOffset()), true
}

// asYAML converts JSON text to YAML. YAML has no escape of a slash, and no pair of escapes for one
// character beyond 16 bits. Half of such a pair stays, and the parser refuses it. Tabs between
// tokens become spaces; strings of JSON have no tabs. Characters that are line breaks or invalid in
// YAML occur only in strings, and become escapes.
func asYAML(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		if r, n := utf8.DecodeRune(text); foreign(r) {
			out, text = fmt.Appendf(out, "\\u%04x", r), text[n:]
			continue
		}
		switch {
		case text[0] == '\t':
			out, text = append(out, ' '), text[1:]
			continue
		case text[0] != '\\' || len(text) < 2:
			out, text = append(out, text[0]), text[1:]
			continue
		case text[1] == '/':
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

// foreign reports whether a character is valid in strings of JSON but not in the text of YAML.
func foreign(r rune) bool {
	return r >= 0x7f && r <= 0x9f || r == '\u2028' || r == '\u2029' || r == '\ufeff' || r == 0xfffe || r == 0xffff
}

// unit returns the 16 bits of the escape at the beginning of the text, or 0.
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
