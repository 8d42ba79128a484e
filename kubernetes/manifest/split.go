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
	line int // of the file, that the text begins in; from 1
}

// byteOrderMark may stand at the head of a file.
const byteOrderMark = "\ufeff"

// split cuts a file into documents: between JSON values that stand one after the other at its head,
// and at YAML's markers. Documents are parsed one by one, so that one that is broken leaves the
// others alone; a YAML parser gives up on the rest of the stream.
//
// JSON comes first, since a marker may stand in its strings.
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

// splitYAML cuts at the lines that begin with a marker, "---" or "...". YAML allows
// these at the beginning of a line nowhere else, not even in a block of text. The marker
// stays at the head of its document, since content may follow it in the line. A JSON value that is
// all of a document is cut out as such.
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

// jsonDocument cuts the JSON value that is all of the document behind a marker's line. It looks
// only where that line ends as JSON's lines do: no string of JSON goes over such an end, so that no
// text is looked at twice.
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

// cutJSON cuts the JSON object that a text begins with, and returns how much it took.
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

// asYAML makes YAML of JSON text. It has no escape of a slash, and none of two halves that stand
// for one character beyond 16 bits; half of such a pair stays, for the parser to refuse. Tabs
// between tokens, of which there are none in strings, become spaces. Characters that YAML takes for
// line breaks or refuses can stand in strings only, and become escapes.
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

// foreign reports whether JSON has the character in its strings and YAML has not, as a character of
// text.
func foreign(r rune) bool {
	return r >= 0x7f && r <= 0x9f || r == '\u2028' || r == '\u2029' || r == '\ufeff' || r == 0xfffe || r == 0xffff
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
