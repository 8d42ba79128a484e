// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
)

// figures has the values of all rows, by implementation.
type figures struct {
	names  []string
	rows   []string // in the order in which they came
	values map[[2]string][]float64
}

func newFigures(all []implementation) *figures {
	f := &figures{values: map[[2]string][]float64{}}
	for _, i := range all {
		f.names = append(f.names, i.name)
	}
	return f
}

func (f *figures) add(name, row string, value float64) {
	if !slices.Contains(f.rows, row) {
		f.rows = append(f.rows, row)
	}
	f.values[[2]string{name, row}] = append(f.values[[2]string{name, row}], value)
}

// write writes a table in Markdown, with minimum and median of each row.
func (f *figures) write(out io.Writer) {
	fmt.Fprint(out, "\n| min / median |")
	for _, name := range f.names {
		fmt.Fprintf(out, " %s |", name)
	}
	fmt.Fprint(out, "\n|---|")
	for range f.names {
		fmt.Fprint(out, "---|")
	}
	fmt.Fprintln(out)
	for _, row := range f.rows {
		fmt.Fprintf(out, "| %s |", row)
		for _, name := range f.names {
			values := slices.Sorted(slices.Values(f.values[[2]string{name, row}]))
			if len(values) == 0 {
				fmt.Fprint(out, " |")
				continue
			}
			fmt.Fprintf(out, " %s / %s |", short(values[0]), short(values[len(values)/2]))
		}
		fmt.Fprintln(out)
	}
}

// short returns a number with three digits or more.
func short(v float64) string {
	switch {
	case v >= 100 || v == 0:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}
