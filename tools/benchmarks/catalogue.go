// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Catalogue describes what is measured, and how the pages show it. Texts are Markdown.
type Catalogue struct {
	Intro       string
	Sections    []*Section
	Performance struct {
		Intro  string
		Charts []*Chart
		Notes  string
	}
}

// Section is a part of the page, recorded at once.
type Section struct {
	Name string // on the command line and in the results
	// Page is the page with the tables of the section, between <!-- bench NAME --> and <!-- /bench
	// -->. Title, level, intro and notes are for the default, docs/benchmarks.md.
	Page  string
	Title string
	// Level is the level of the heading. Default: 2.
	Level int
	Intro string
	// Commands are scripts for bash, run at the root of the repository. Each prints results of
	// benchmarks.
	Commands []string
	Peer     Peer
	Tables   []*Table
	Notes    string
}

// Peer is another program whose benchmarks the commands of a section run, too. A benchmark that
// does the same work as one of ours has the same name, with a prefix, and the same units.
type Peer struct{ Title, Prefix string }

// Table has a row for each benchmark or group of benchmarks.
type Table struct {
	Title   string // of the first column
	Columns []Column
	Rows    []Row
}

// Column shows one figure of each row.
type Column struct {
	Title string
	// Bench replaces {} in the Bench of the row. If the row's Bench has no {}, the column's is
	// appended to it.
	Bench string
	Unit  string

	prefix string // of the names of benchmarks; not empty for figures of the peer
}

// Row is one line of a table or chart.
type Row struct {
	Text  string
	Bench string // the name of a benchmark without the word Benchmark
	Unit  string // replaces the unit of the first column, and of columns with the same unit
	// Base is the name of another benchmark. The column's Bench replaces {} in this name. The table
	// shows a ratio in brackets: the minimum of the row's benchmark, divided by the minimum of the
	// other benchmark.
	Base string
	// Target begins with a value and its unit, such as "0.6 s", or with a ratio, such as "1.25x" or
	// "1.25 times raw". More text may follow. A ratio is the target of the ratio in the first
	// column, and of figures whose unit begins with "x-".
	Target string
}

// Chart is a picture with bars for each row.
type Chart struct {
	Name    string // of the file, and of the section on the page
	Title   string
	Text    string // what the chart shows, in a sentence
	Section string
	Log     bool // the scale is logarithmic
	Columns []Column
	Rows    []Row // their targets are those of the rows of the section with the same figures
}

// allocs is the unit of allocations.
const allocs = "allocs/op"

// defaultColumns are the columns of a table for which the catalogue has none.
var defaultColumns = []Column{{Title: "min / median", Unit: "ns/op"}, {Title: "allocs", Unit: allocs}}

func loadCatalogue(file string) (*Catalogue, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	c := &Catalogue{}
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(c); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	if err := c.complete(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}

// complete sets defaults, and reports what is missing or malformed.
func (c *Catalogue) complete() error {
	var errs []error
	known := map[string]bool{}
	for _, s := range c.Sections {
		if s.Name == "" || s.Title == "" && s.Page == "" || len(s.Commands) == 0 {
			errs = append(errs, fmt.Errorf("section %q: name, title or commands are missing", s.Name))
		}
		if s.Page != "" && s.Title+s.Intro+s.Notes != "" {
			errs = append(errs, fmt.Errorf("section %q: title, intro and notes belong in %s", s.Name, s.Page))
		}
		if known[s.Name] {
			errs = append(errs, fmt.Errorf("section %q: there are two", s.Name))
		}
		known[s.Name] = true
		if s.Level == 0 {
			s.Level = 2
		}
		for _, t := range s.Tables {
			if len(t.Columns) == 0 {
				t.Columns = defaultColumns
			}
			errs = append(errs, checkRows("section "+s.Name, t.Rows))
		}
	}
	for _, chart := range c.Performance.Charts {
		if len(chart.Columns) == 0 {
			chart.Columns = []Column{{Title: "Wayleave", Unit: "ns/op"}}
		}
		if s := c.section(chart.Section); s == nil || s.Page != "" {
			errs = append(errs, fmt.Errorf("chart %q: no section %q of docs/benchmarks.md", chart.Name, chart.Section))
		}
		errs = append(errs, checkRows("chart "+chart.Name, chart.Rows))
	}
	return errors.Join(errs...)
}

func checkRows(where string, rows []Row) error {
	var errs []error
	for _, r := range rows {
		if r.Text == "" || r.Bench == "" {
			errs = append(errs, fmt.Errorf("%s: a row has no text or no bench: %+v", where, r))
		}
		if _, err := path.Match(r.Bench, ""); err != nil {
			errs = append(errs, fmt.Errorf("%s: bench %q: %w", where, r.Bench, err))
		}
	}
	return errors.Join(errs...)
}

// section returns nil if there is none.
func (c *Catalogue) section(name string) *Section {
	for _, s := range c.Sections {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// unit returns the unit of the row in a column. The unit of the row replaces that of the first
// column.
func (r Row) unit(columns []Column, c Column) string {
	if r.Unit != "" && c.Unit == columns[0].Unit {
		return r.Unit
	}
	return c.Unit
}

// bench returns the name of the benchmark in a column.
func (r Row) bench(c Column) string {
	if strings.Contains(r.Bench, "{}") {
		return c.prefix + strings.ReplaceAll(r.Bench, "{}", c.Bench)
	}
	return c.prefix + r.Bench + c.Bench
}

// columns returns the columns with the peer's figures: one for the first column and one for
// allocations, each only if the recording has a figure for any row.
func (p Peer) columns(t *Table, recording *Recording) (list []Column) {
	for i, c := range t.Columns {
		c.Title, c.prefix = p.Title+": "+c.Title, p.Prefix
		recorded := func(r Row) bool { _, ok := r.figure(recording, t.Columns, c); return ok }
		if p.Prefix != "" && (i == 0 || c.Unit == allocs) && slices.ContainsFunc(t.Rows, recorded) {
			list = append(list, c)
		}
	}
	return list
}

// figure returns the figure of a row in a column.
func (r Row) figure(recording *Recording, columns []Column, c Column) (Figure, bool) {
	return recording.figure(r.bench(c), r.unit(columns, c))
}

// missing returns the benchmarks of rows for which a recording has no figure in any column. If the
// recording has no result of the peer, the peer's prefix is among them.
func (s *Section) missing(recording *Recording) []string {
	var names []string
	ofPeer := func(r Result) bool { return strings.HasPrefix(r.Name, s.Peer.Prefix) }
	if s.Peer.Prefix != "" && !slices.ContainsFunc(recording.Results, ofPeer) {
		names = append(names, s.Peer.Prefix)
	}
	for _, t := range s.Tables {
		for _, row := range t.Rows {
			recorded := func(c Column) bool { _, ok := row.figure(recording, t.Columns, c); return ok }
			if !slices.ContainsFunc(t.Columns, recorded) {
				names = append(names, row.Bench)
			}
		}
	}
	return names
}
