// SPDX-License-Identifier: Apache-2.0

package txtar

import (
	"bytes"
	"strings"
)

// Archive is a comment and files, in order. Names need not be unique.
type Archive struct {
	// Comment is the text before the first file.
	Comment []byte
	// Files in order.
	Files []File
}

// File is one file of an archive.
type File struct {
	// Name is the NAME in the marker line "-- NAME --" of the file, without white space around it.
	Name string
	// Data is the text from the marker line to the next marker line, without these lines. It ends
	// with a newline unless it is empty.
	Data []byte
}

// Parse reads an archive. A last line without a newline gets one.
func Parse(data []byte) Archive {
	var a Archive
	section := &a.Comment
	for line := range bytes.Lines(data) {
		if name, ok := marker(line); ok {
			a.Files = append(a.Files, File{Name: name})
			section = &a.Files[len(a.Files)-1].Data
			continue
		}
		*section = append(*section, line...)
		if !bytes.HasSuffix(line, []byte("\n")) {
			*section = append(*section, '\n')
		}
	}
	return a
}

// Format returns the text of the archive. Parse returns an equal archive, unless a line of a file
// looks like a marker.
func Format(a Archive) []byte {
	var b bytes.Buffer
	write := func(data []byte) {
		b.Write(data)
		if len(data) > 0 && data[len(data)-1] != '\n' {
			b.WriteByte('\n')
		}
	}
	write(a.Comment)
	for _, f := range a.Files {
		b.WriteString("-- " + f.Name + " --\n")
		write(f.Data)
	}
	return b.Bytes()
}

// marker returns the name in a line "-- name --".
func marker(line []byte) (string, bool) {
	s := strings.TrimRight(string(line), "\r\n")
	s, before := strings.CutPrefix(s, "-- ")
	s, after := strings.CutSuffix(s, " --")
	s = strings.TrimSpace(s)
	return s, before && after && s != ""
}
