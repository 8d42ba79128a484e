// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/policy"
	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// maxProblems is the maximum number of problems of one object that are reported. Each takes a
// search for its line, so the time would otherwise grow with the square of the object's size.
const maxProblems = 100

// maxLists is the maximum depth of lists in lists.
const maxLists = 10

var (
	errMore  = errors.New("there are more problems, which are not listed")
	errLists = fmt.Errorf("lists are nested more than %d levels deep", maxLists)
)

// document is the state of decoding one document.
type document struct {
	converter convert.Converter
	rule      func(string, RuleOrigin)       // Reader.Rule
	policy    func(policy.Key, PolicyOrigin) // Reader.Policy
	origin    Error                          // the file and the document of every error
	first     int                            // the line of the file at which the document begins
	root      *yaml.Node
	values    reader
	entries   []entry
	errs      []error
}

// identity is the apiVersion and kind of an object.
type identity struct{ apiVersion, kind string }

// fail reports an error of a field.
func (d *document) fail(object convert.Object, field string, err error) {
	d.failAt(lineOf(d.root, field), object, field, err)
}

// failAt reports an error in a line of the document.
func (d *document) failAt(line int, object convert.Object, field string, err error) {
	e := d.origin
	e.Line, e.Object, e.Field, e.Err = d.first+line-1, object, field, err
	d.errs = append(d.errs, &e)
}

// decode decodes the document.
func (d *document) decode(c chunk) {
	root, err := parse(c)
	if err != nil {
		line, cause := syntaxError(err)
		d.failAt(line, convert.Object{}, "", cause)
		return
	}
	if root == nil {
		return
	}
	d.root, d.values = root, newReader(len(c.text))
	d.node(root, "", identity{}, 0)
}

// list decodes the items of a list. identity is that of items without apiVersion and kind.
func (d *document) list(n *yaml.Node, path string, item identity, depth int) {
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := joinKey(path, key.Value)
		if seen[key.Value] {
			d.failAt(key.Line, list(), at, errTwice)
			continue
		}
		seen[key.Value] = true
		switch key.Value {
		case "apiVersion", "kind", "metadata":
		case "items":
			d.resolveAlias(value, func(n *yaml.Node) { d.items(n, at, item, depth) })
		default:
			d.failAt(key.Line, list(), at, ErrUnknownField)
		}
	}
}

func (d *document) items(n *yaml.Node, path string, item identity, depth int) {
	switch {
	case n == nil || n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null":
	case n.Kind != yaml.SequenceNode:
		d.failAt(n.Line, list(), path, errors.New("want a list"))
	default:
		for i, child := range n.Content {
			d.node(child, fmt.Sprintf("%s[%d]", path, i), item, depth)
		}
	}
}

// resolveAlias calls a function with the node that an alias refers to, whose size it counts, or
// with the node itself.
func (d *document) resolveAlias(n *yaml.Node, f func(*yaml.Node)) {
	if n.Kind != yaml.AliasNode {
		f(n)
		return
	}
	d.values.inAlias++
	f(resolve(n))
	d.values.inAlias--
}

// node decodes one object, or a list of objects, at a path of the document.
func (d *document) node(n *yaml.Node, path string, item identity, depth int) {
	id := identify(n)
	if id == (identity{}) {
		id = item
	}
	item, isList := itemKind(id)
	switch {
	case !isList:
		d.object(n, path, id)
	case depth == maxLists && d.values.inAlias == 0:
		d.failAt(n.Line, list(), path, errLists)
	case depth == maxLists:
		d.failOnce(n.Line, list(), path, errLists)
	case !d.values.spend(costOfValue + len(path)):
		d.failOnce(n.Line, list(), path, errAliases)
	default:
		d.resolveAlias(n, func(n *yaml.Node) { d.list(n, path, item, depth+1) })
	}
}

// failOnce reports an error once for a document.
func (d *document) failOnce(line int, object convert.Object, field string, err error) {
	for _, have := range d.errs {
		if errors.Is(have, err) {
			return
		}
	}
	d.failAt(line, object, field, err)
}

// object decodes one object at a path of the document.
func (d *document) object(n *yaml.Node, path string, id identity) {
	name := objectOf(n, id)
	value, wrong := d.values.read(n)
	fields, ok := value.(map[string]any)
	known := ok && newObject(id) != nil
	broken := d.broken(wrong, id)
	switch {
	case len(wrong) > 0 && (broken == nil || !known):
		d.report(name, path, wrong)
		return
	case !ok || id.kind == "" || id.apiVersion == "":
		d.fail(name, path, errors.New("want an object with apiVersion and kind"))
		return
	case !known:
		d.fail(name, join(path, "kind"), fmt.Errorf("%w: %q of apiVersion %q", ErrUnknownKind, id.kind, id.apiVersion))
		return
	}
	d.report(name, path, wrong)
	doubts, replaced := doubtfulRules(id, fields, broken)
	problems := append(nulls(id, fields), clusterRequired(id, fields)...)
	typed, misfits := decodeTyped(fields, func() metav1.Object { return newObject(id) })
	problems = append(problems, misfits...)
	for i, p := range append(doubts, problems...) {
		if i == maxProblems {
			d.fail(name, path, errMore)
			break
		}
		d.fail(name, join(path, p.field), p.err)
	}
	if len(problems) == 0 {
		for _, w := range wrong {
			doubts = append(doubts, fieldError{w.at.String(), w.err})
		}
		d.convert(typed, name, path, replaced, doubts)
	}
}

// report reports the errors that the reader found in an object. It reports the limit of aliases
// only once.
func (d *document) report(name convert.Object, path string, wrong []nodeError) {
	reported, aliases := 0, false
	for _, w := range wrong {
		if errors.Is(w.err, errAliases) {
			if aliases {
				continue
			}
			aliases = true
		}
		if reported++; reported > maxProblems {
			d.fail(name, path, errMore)
			return
		}
		d.failAt(w.line, name, join(path, w.at.String()), w.err)
	}
}

// convert converts an object. Errors of the replaced rules were reported before, except for a
// missing action. found has the errors reported so far.
func (d *document) convert(
	object metav1.Object, name convert.Object, path string, replaced map[string]bool, found []fieldError,
) {
	resources, problems := d.converter.Convert(object)
	problems = slices.DeleteFunc(problems, func(err error) bool {
		var wrong *convert.Error
		if !errors.As(err, &wrong) {
			return false
		}
		rule := ruleOf(wrong.Field)
		actionReported, was := replaced[rule]
		return was && (actionReported || wrong.Field != rule+".action")
	})
	for i, err := range problems {
		if i == maxProblems {
			d.fail(name, path, errMore)
			break
		}
		var wrong *convert.Error
		if !errors.As(err, &wrong) {
			d.fail(name, path, err)
			continue
		}
		d.fail(wrong.Object, join(path, wrong.Field), wrong.Err)
	}
	if len(resources) == 0 {
		return
	}
	recordDoubts(resources, replaced, found)
	d.reportRules(object, path)
	origin := d.origin
	origin.Line, origin.Object = d.first+lineOf(d.root, path)-1, name
	d.reportPolicies(resources, origin)
	d.entries = append(d.entries, entry{resources: resources, origin: origin})
}

// reportPolicies reports the place of each policy among the resources of an object.
func (d *document) reportPolicies(resources []policy.Resource, at Error) {
	if d.policy == nil {
		return
	}
	for _, r := range resources {
		if p, ok := r.(*policy.Policy); ok {
			d.policy(p.Key(), PolicyOrigin{Object: at.Object, File: at.File, Line: at.Line})
		}
	}
}

// reportRules reports the places of the rules of an object at a path of the document.
func (d *document) reportRules(object metav1.Object, path string) {
	if d.rule == nil {
		return
	}
	line := func(field string) int { return d.first + lineOf(d.root, join(path, field)) - 1 }
	for id, o := range d.converter.RuleOrigins(object) {
		d.rule(id, RuleOrigin{RuleOrigin: o, File: d.origin.File, lineOf: line}.located())
	}
}

// identify returns the apiVersion and kind of an object, as far as they can be read.
func identify(n *yaml.Node) identity {
	return identity{apiVersion: text(n, "apiVersion"), kind: text(n, "kind")}
}

// objectOf returns the object of an error, as far as it can be read.
func objectOf(n *yaml.Node, id identity) convert.Object {
	metadata := child(n, "metadata")
	return convert.Object{
		APIVersion: id.apiVersion, Kind: id.kind, Namespace: text(metadata, "namespace"), Name: text(metadata, "name"),
		UID: types.UID(text(metadata, "uid")),
	}
}

// list returns the object of an error in a list.
func list() convert.Object { return convert.Object{Kind: "List"} }

// text returns the text of a key of a mapping, or "".
func text(n *yaml.Node, key string) string {
	v := child(n, key)
	if v == nil || v.Kind != yaml.ScalarNode || v.ShortTag() != "!!str" {
		return ""
	}
	return v.Value
}

// child returns the value of a key of a mapping, or nil.
func child(n *yaml.Node, key string) *yaml.Node {
	n = resolve(n)
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return resolve(n.Content[i+1])
		}
	}
	return nil
}
