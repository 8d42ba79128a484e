// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Table is text in columns.
type Table struct {
	// Head has the titles of the columns. Empty means that there are none.
	Head []string
	// Rows have a cell for each column. A cell may have several lines.
	Rows [][]string
}

const (
	// gap separates the columns of a Table.
	gap = "  "
	// minColumn is the minimum width of a column, even if lines are then too long.
	minColumn = 8
	// hang is the additional indentation of the second and later lines of a wrapped line.
	hang = 4
)

// Text returns the formatted table, with a line break at the end of each line. If lines would be
// longer than the width, the cells of the widest columns are wrapped; no text is cut off. Width 0
// means no limit.
func (t Table) Text(width int) string {
	rows := t.Rows
	if len(t.Head) > 0 {
		rows = slices.Insert(slices.Clone(rows), 0, t.Head)
	}
	widths := columnWidths(rows)
	shrink(widths, width)
	var out strings.Builder
	for _, row := range rows {
		cells, height := make([][]string, len(row)), 0
		for j, cell := range row {
			cells[j] = wrapLines(cell, widths[j])
			height = max(height, len(cells[j]))
		}
		for i := range height {
			line := ""
			for j, lines := range cells {
				part := ""
				if i < len(lines) {
					part = lines[i]
				}
				line += part + strings.Repeat(" ", widths[j]-utf8.RuneCountInString(part)) + gap
			}
			out.WriteString(strings.TrimRight(line, " ") + "\n")
		}
	}
	return out.String()
}

// columnWidths returns the width of the longest line of each column.
func columnWidths(rows [][]string) (widths []int) {
	for _, row := range rows {
		widths = append(widths, make([]int, max(0, len(row)-len(widths)))...)
		for j, cell := range row {
			for line := range strings.SplitSeq(cell, "\n") {
				widths[j] = max(widths[j], utf8.RuneCountInString(line))
			}
		}
	}
	return widths
}

// shrink reduces the largest widths until the columns fit, or until all have their minimum width.
func shrink(widths []int, width int) {
	excess := -width - len(gap)
	for _, w := range widths {
		excess += w + len(gap)
	}
	for ; width > 0 && excess > 0; excess-- {
		widest := 0
		for j := range widths {
			if widths[j] > widths[widest] {
				widest = j
			}
		}
		if widths[widest] <= minColumn {
			return
		}
		widths[widest]--
	}
}

// Fold wraps the lines of a text that are longer than the width, and indents their continuations.
// Width 0 means no limit.
func Fold(text string, width int) string {
	if width == 0 {
		return text
	}
	var out strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		rest := strings.TrimLeft(line, " ")
		indent := len(line) - len(rest)
		if utf8.RuneCountInString(line) <= width || width-indent-hang < minColumn {
			out.WriteString(line + "\n")
			continue
		}
		first, rest := cut(rest, width-indent)
		out.WriteString(strings.Repeat(" ", indent) + first + "\n")
		for _, part := range wrapLines(rest, width-indent-hang) {
			out.WriteString(strings.Repeat(" ", indent+hang) + part + "\n")
		}
	}
	return out.String()
}

// fill fills the paragraphs of a text, which are separated by empty lines. It keeps the lines of a
// paragraph with an indented line.
func fill(text string, width int) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		if !strings.HasPrefix(p, " ") && !strings.Contains(p, "\n ") {
			line := strings.ReplaceAll(p, "\n", " ")
			paragraphs[i] = strings.Join(wrapLines(line, max(width, minColumn)), "\n")
		}
	}
	return strings.Join(paragraphs, "\n\n")
}

// wrapLines splits a text into lines that are not longer than the width.
func wrapLines(text string, width int) (lines []string) {
	for line := range strings.SplitSeq(text, "\n") {
		for utf8.RuneCountInString(line) > width {
			var first string
			first, line = cut(line, width)
			lines = append(lines, first)
		}
		lines = append(lines, line)
	}
	return lines
}

// cut splits a line that is longer than the width. It splits at the last space that fits. If there
// is none, it splits after a comma or a slash, or else at the width.
func cut(line string, width int) (first, rest string) {
	runes := []rune(line)
	for end := width; end > width/2; end-- {
		if runes[end] == ' ' {
			return string(runes[:end]), string(runes[end+1:])
		}
	}
	for end := width; end > width/2; end-- {
		if strings.ContainsRune(",;/", runes[end-1]) {
			return string(runes[:end]), string(runes[end:])
		}
	}
	return string(runes[:width]), string(runes[width:])
}
