// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// prefix is the prefix of the environment variables of settings.
const prefix = "WAYLEAVE_"

// reexecMarker is an environment variable that is not a setting. Package netns sets it when it
// starts a program again in a user namespace.
const reexecMarker = "WAYLEAVE_IN_USER_NAMESPACE"

// wantMapping says what a source of settings must be.
const wantMapping = "want lines with KEY: VALUE"

// environment is the name of the source of environment variables.
const environment = "environment"

// variable returns the name of the environment variable of a key.
func variable(key string) string {
	return prefix + strings.ToUpper(strings.ReplaceAll(key, "-", "_"))
}

// Environment returns the settings in the variables that begin with WAYLEAVE_. environ is the
// result of os.Environ. Environment leaves out WAYLEAVE_CONFIG, which is the path of the settings
// file.
func Environment(environ []string) Layer {
	l := Layer{Source: environment, Values: map[string]string{}}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		key, ours := strings.CutPrefix(name, prefix)
		if !ours || name == reexecMarker || name == ConfigVariable {
			continue
		}
		l.Values[strings.ReplaceAll(strings.ToLower(key), "_", "-")] = value
	}
	return l
}

// ConfigVariable is the environment variable with the path of the settings file.
const ConfigVariable = "WAYLEAVE_CONFIG"

// File returns the settings of a YAML file, which is one mapping from keys to values. An empty path
// means that there is no file.
func File(path string) Layer {
	l := Layer{Source: "file " + path, Values: map[string]string{}}
	if path == "" {
		return l
	}
	data, err := os.ReadFile(path)
	if err != nil {
		l.Problems = append(l.Problems, &Problem{Source: l.Source, Err: fmt.Errorf("%w: give a file of settings", err)})
		return l
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		l.Problems = append(l.Problems, &Problem{Source: l.Source, Err: fmt.Errorf("%w: %s", err, wantMapping)})
		return l
	}
	if len(doc.Content) > 0 {
		l.read(doc.Content[0])
	}
	return l
}

// read reads a mapping.
func (l *Layer) read(n *yaml.Node) {
	fail := func(key string, n *yaml.Node, text string) {
		l.Problems = append(l.Problems, &Problem{
			Source: l.Source, Key: key, Err: fmt.Errorf("line %d: %s", n.Line, text),
		})
	}
	if n.Kind != yaml.MappingNode {
		fail("", n, wantMapping)
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		_, twice := l.Values[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode:
			fail("", key, "want a word as the key")
		case twice:
			fail(key.Value, key, "is set twice: keep one")
		case value.Kind != yaml.ScalarNode || value.Tag == "!!null":
			fail(key.Value, value, "want a single value")
		default:
			l.Values[key.Value] = value.Value
		}
	}
}

// Object returns the settings of an object in a datastore. The object is one JSON or YAML mapping
// from keys to values. The first parameter is the name of the source, for display.
func Object(source string, data []byte) Layer {
	l := Layer{Source: source, Datastore: true, Values: map[string]string{}}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		l.Problems = append(l.Problems, &Problem{Source: source, Err: fmt.Errorf("%w: %s", err, wantMapping)})
	} else if len(doc.Content) > 0 {
		l.read(doc.Content[0])
	}
	return l
}

// Kind and APIVersion of settings among the manifests.
const (
	Kind       = "AgentConfig"
	APIVersion = "wayleave.dev/v1"
)

// Global is the name of the AgentConfig object for all nodes.
const Global = "default"

// OfNode returns the name of the AgentConfig object for one node.
func OfNode(node string) string { return "node." + node }

// separator is a line between two documents.
var separator = regexp.MustCompile(`(?m)^---(?:[ \t].*)?$`)

// Extract removes the AgentConfig objects from a file of manifests. It returns the settings of each
// object, by the object's name. It also returns the rest of the file, with blank lines instead of
// these objects, so that line numbers stay the same.
func Extract(file string, data []byte) (map[string]Layer, []byte) {
	if !bytes.Contains(data, []byte(Kind)) {
		return nil, data
	}
	found := map[string]Layer{}
	var rest bytes.Buffer
	at := 0
	for _, mark := range append(separator.FindAllIndex(data, -1), []int{len(data), len(data)}) {
		text := data[at:mark[0]]
		if name, l, ok := object(file, text); ok {
			if _, twice := found[name]; twice {
				l.Problems = append(l.Problems, &Problem{Source: l.Source, Err: errors.New("is duplicated: keep one")})
			}
			found[name] = l
			text = bytes.Repeat([]byte("\n"), bytes.Count(text, []byte("\n")))
		}
		rest.Write(text)
		rest.Write(data[mark[0]:mark[1]])
		at = mark[1]
	}
	return found, rest.Bytes()
}

// object reads a document. ok is false if the document is not an AgentConfig object.
func object(file string, text []byte) (name string, l Layer, ok bool) {
	var head struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   struct{ Name string }
		Spec       yaml.Node
	}
	err := yaml.NewDecoder(bytes.NewReader(text)).Decode(&head)
	if err != nil && !errors.Is(err, io.EOF) || head.Kind != Kind || head.APIVersion != APIVersion {
		return "", l, false
	}
	l = Layer{
		Source: fmt.Sprintf("datastore %s %s (%s)", Kind, head.Metadata.Name, file), Datastore: true,
		Values: map[string]string{},
	}
	if head.Metadata.Name != Global && !strings.HasPrefix(head.Metadata.Name, OfNode("")) {
		l.Problems = append(l.Problems, &Problem{
			Source: l.Source, Err: fmt.Errorf("want the name %q, or %q with the name of a node", Global, OfNode("")),
		})
	}
	if head.Spec.Kind != 0 {
		l.read(&head.Spec)
	}
	return head.Metadata.Name, l, true
}
