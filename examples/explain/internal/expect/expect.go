// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/wayleave/wayleave/policy/probe"
)

// Expectation is an expectation with its line in the file.
type Expectation struct {
	probe.Expectation
	// Line is the number of the first line of the expectation, counted from 1.
	Line int
}

// entry is an expectation in the form of the file.
type entry struct {
	Name  string `yaml:"name"`
	From  list   `yaml:"from"`
	To    list   `yaml:"to"`
	Port  list   `yaml:"port"`
	Allow *bool  `yaml:"allow"`
	line  int
}

// list is one text or several.
type list []string

// UnmarshalYAML reads a text, or a list of texts.
func (l *list) UnmarshalYAML(n *yaml.Node) error {
	nodes := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		nodes = n.Content
	}
	if len(nodes) == 0 {
		return fmt.Errorf("line %d: the list is empty", n.Line)
	}
	for _, item := range nodes {
		for item.Kind == yaml.AliasNode {
			item = item.Alias
		}
		if item.Kind != yaml.ScalarNode || item.ShortTag() == "!!null" || item.Value == "" {
			return fmt.Errorf("line %d: want a text, or a list of texts", item.Line)
		}
		*l = append(*l, item.Value)
	}
	return nil
}

// Parse reads a file of expectations. The file's name is used in errors only.
func Parse(file string, data []byte) ([]Expectation, error) {
	entries, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var errs []error
	var out []Expectation
	for i, e := range entries {
		where := fmt.Sprintf("%s: line %d: expect[%d]", file, e.line, i)
		x := Expectation{probe.Expectation{Name: e.Name, From: e.From, To: e.To}, e.line}
		for _, field := range []struct {
			name   string
			absent bool
		}{{"from", e.From == nil}, {"to", e.To == nil}, {"port", e.Port == nil}, {"allow", e.Allow == nil}} {
			if field.absent {
				errs = append(errs, fmt.Errorf("%s: %s is missing", where, field.name))
			}
		}
		for _, text := range e.Port {
			port, err := probe.ParsePort(text)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: port: %w", where, err))
			}
			x.Ports = append(x.Ports, port)
		}
		if e.Allow != nil {
			x.Allow = *e.Allow
		}
		out = append(out, x)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return out, nil
}

// decode decodes the YAML. An unknown field is an error.
func decode(data []byte) ([]entry, error) {
	// The data is decoded twice: only nodes have line numbers, and only a decoder can refuse
	// unknown fields.
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var root yaml.Node
	switch err := decoder.Decode(&root); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("the file has no expectations")
	case err != nil:
		return nil, plain(err)
	}
	if err := decoder.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, errors.New("want one document")
	}
	var file struct {
		Expect []entry `yaml:"expect"`
	}
	decoder = yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		return nil, plain(err)
	}
	top := root.Content[0].Content
	if len(top) != 2 || top[0].Value != "expect" || top[1].Kind != yaml.SequenceNode || len(top[1].Content) == 0 {
		return nil, errors.New("want a list of at least one expectation under the key expect, and nothing else")
	}
	items := top[1].Content
	if len(items) != len(file.Expect) {
		return nil, errors.New("expect: an item of the list is empty") // the decoder leaves out such items
	}
	for i, n := range items {
		file.Expect[i].line = n.Line
	}
	return file.Expect, nil
}

// plain is an error of the YAML package without the package's name.
func plain(err error) error { return errors.New(strings.TrimPrefix(err.Error(), "yaml: ")) }
