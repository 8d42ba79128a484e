// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
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
	Name  string // on the command line and in the results
	Title string
	// Level is the level of the heading. Default: 2.
	Level int
	Intro string
	// Commands are lines for bash, run at the root of the repository. Each prints results of benchmarks.
	Commands []string
	// Peer describes how the column "reference" was measured. Its first line has the time and place, and charts repeat
	// this line.
	Peer   string
	Tables []*Table
	Notes  string
}

// Table has a row for each benchmark or group of benchmarks.
type Table struct {
	Title   string // of the first column
	Columns []Column
	Rows    []Row
}

// Column shows one figure of each row.
type Column struct {
	Title string
	// Bench replaces {} in the Bench of the row. If the row's Bench has no {}, the column's is appended to it.
	Bench string
	Unit  string
}

// Row is one line of a table or chart.
type Row struct {
	Text  string
	Bench string // the name of a benchmark without the word Benchmark
	Unit  string // replaces the unit of the first column
	// Base is the name of another benchmark. The column's Bench replaces {} in this name. The table shows a ratio in
	// brackets: the minimum of the row's benchmark, divided by the minimum of the other benchmark.
	Base string
	// Target and Peer begin with a value and its unit, such as "0.6 s". More text may follow.
	Target, Peer string
}

// Chart is a picture with bars for each row.
type Chart struct {
	Name    string // of the file, and of the section on the page
	Title   string
	Text    string // what the chart shows, in a sentence
	Section string
	Log     bool // the scale is logarithmic
	Columns []Column
	Rows    []Row // their targets and peers are those of the rows of the section with the same figures
}

// defaultColumns are the columns of a table for which the catalogue has none.
var defaultColumns = []Column{{Title: "min / median", Unit: "ns/op"}, {Title: "allocs", Unit: "allocs/op"}}

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
		if s.Name == "" || s.Title == "" || len(s.Commands) == 0 {
			errs = append(errs, fmt.Errorf("section %q: name, title or commands are missing", s.Name))
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
		if !known[chart.Section] {
			errs = append(errs, fmt.Errorf("chart %q: no section %q", chart.Name, chart.Section))
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

// unit returns the unit of the row in column i.
func (r Row) unit(columns []Column, i int) string {
	if i == 0 && r.Unit != "" {
		return r.Unit
	}
	return columns[i].Unit
}

// bench returns the name of the benchmark in a column.
func (r Row) bench(c Column) string {
	if strings.Contains(r.Bench, "{}") {
		return strings.ReplaceAll(r.Bench, "{}", c.Bench)
	}
	return r.Bench + c.Bench
}

// missing returns the benchmarks of rows for which a recording has no figure in any column.
func (s *Section) missing(recording *Recording) []string {
	var names []string
	for _, t := range s.Tables {
		for _, row := range t.Rows {
			found := false
			for i, column := range t.Columns {
				_, ok := recording.figure(row.bench(column), row.unit(t.Columns, i))
				found = found || ok
			}
			if !found {
				names = append(names, row.Bench)
			}
		}
	}
	return names
}
