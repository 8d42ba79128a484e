// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
)

// Results has the recorded sections by name.
type Results map[string]*Recording

// Recording has the results of a section, from one run of all its commands.
type Recording struct {
	Date   string `json:"date"`   // 2006-01-02
	Commit string `json:"commit"` // with "-dirty" if files outside of docs had changes
	// Commands are those of the catalogue at that time.
	Commands []string `json:"commands"`
	// Seconds is the time that all commands took.
	Seconds int      `json:"seconds"`
	Machine Machine  `json:"machine"`
	Results []Result `json:"results"`
}

// Machine describes the machine on which a section was recorded.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
	// Load is the one-minute load average, read before the first command starts.
	Load string `json:"load"`
}

// Result has the figures of all runs of one benchmark.
type Result struct {
	Name    string            `json:"name"` // without the word Benchmark and the number of processors
	Runs    int               `json:"runs"`
	Figures map[string]Figure `json:"figures"` // by unit
}

// Figure is the minimum and the median of all runs.
type Figure struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
}

// loadResults reads a file. One that does not exist has no recordings.
func loadResults(file string) (Results, error) {
	results := Results{}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return results, nil
	}
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&results); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return results, nil
}

func (r Results) save(file string) error {
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(data, '\n'), 0o644)
}

// figure returns a figure by the name of its benchmark, in which a * stands for any characters but
// a slash.
func (r *Recording) figure(name, unit string) (Figure, bool) {
	if r == nil {
		return Figure{}, false
	}
	for _, result := range r.Results {
		if ok, _ := path.Match(name, result.Name); ok || name == result.Name {
			figure, ok := result.Figures[unit]
			return figure, ok
		}
	}
	return Figure{}, false
}
