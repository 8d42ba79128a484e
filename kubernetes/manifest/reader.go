// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/policy"
)

// Reader has the settings with which its methods read manifests. The zero value is ready to use. A
// Reader is safe for concurrent use if its functions are.
type Reader struct {
	// Converter converts the objects. The zero value is valid.
	Converter convert.Converter
	// Rule is called for each rule of the policies in manifests, with the rule's ID (see
	// policy.RuleIDs) and its place. If an object is given twice, Rule is called for the rules of
	// both. Nil means that the places are not computed.
	Rule func(id string, at RuleOrigin)
	// Policy is called for each policy in manifests, with its key and its place. If an object is
	// given twice, Policy is called for both. Optional.
	Policy func(key policy.Key, at PolicyOrigin)
}

// PolicyOrigin is the origin of a policy: its object, and the file and line of a manifest.
type PolicyOrigin struct {
	Object convert.Object `json:"object"`
	// File is the name of the file as it was given.
	File string `json:"file,omitempty"`
	// Line is the line of the file, counted from 1, with which the object begins.
	Line int `json:"line,omitempty"`
}

// String returns the place of the policy, as in "shop.yaml:36". If File is empty, it returns the
// object.
func (o PolicyOrigin) String() string {
	if o.File == "" {
		return o.Object.String()
	}
	return fmt.Sprintf("%s:%d", o.File, o.Line)
}

// RuleOrigin is the place of a policy's rule in a manifest.
type RuleOrigin struct {
	convert.RuleOrigin
	// File is the name of the file as it was given.
	File string `json:"file,omitempty"`
	// Line is the line of the file, counted from 1, that has the first of Peers. Without Peers, it
	// is the line of the first of Ports. Without both, it is the line of the rule.
	Line int `json:"line,omitempty"`

	lineOf func(path string) int
}

// Narrow returns a copy of the origin for a packet with this source, destination and port. The copy
// has only those peers and ports of the rule that the packet can match. Line is then the line of
// the first of these peers, or of the first port if there are no peers.
func (o RuleOrigin) Narrow(src, dst netip.Addr, port uint16) RuleOrigin {
	o.RuleOrigin = o.RuleOrigin.Narrow(src, dst, port)
	return o.located()
}

// located returns the origin with its line.
func (o RuleOrigin) located() RuleOrigin {
	if o.lineOf != nil { // it is of a Reader
		o.Line = o.lineOf(slices.Concat(o.Peers, o.Ports, []string{o.Field})[0])
	}
	return o
}

// String returns the place of the rule, as in "shop.yaml:41: ingress[0].from[1], ports[0]". If File
// is empty, the text begins with the object instead of file and line.
func (o RuleOrigin) String() string {
	if o.File == "" {
		return o.Object.String() + ": " + o.RuleOrigin.String()
	}
	return fmt.Sprintf("%s:%d: %s", o.File, o.Line, o.RuleOrigin)
}

// Decode is Reader.Decode of the zero Reader.
func Decode(file string, data []byte) ([]policy.Resource, []error) {
	return Reader{}.Decode(file, data)
}

// ReadFiles is Reader.ReadFiles of the zero Reader.
func ReadFiles(paths ...string) ([]policy.Resource, []error) { return Reader{}.ReadFiles(paths...) }

// ReadDir is Reader.ReadDir of the zero Reader.
func ReadDir(dir string) ([]policy.Resource, []error) { return Reader{}.ReadDir(dir) }

// Decode decodes the documents of one file, in order. It returns the resources of all valid
// objects, at most one for each key, and an *Error for each problem. The first argument is the name
// of the file, for Error.File and RuleOrigin.File. Decode does not open this file.
func (r Reader) Decode(file string, data []byte) ([]policy.Resource, []error) {
	return unique(r.decodeFile(file, data))
}

// ReadFiles reads files in the given order. For a file that cannot be read or is larger than
// MaxFileSize, it returns an *Error. It still reads the other files. If two files have the same
// object, the first is used. A file may be a pipe, which is read to its end.
func (r Reader) ReadFiles(paths ...string) ([]policy.Resource, []error) {
	return r.readFiles(paths, readFile)
}

func (r Reader) readFiles(paths []string, read func(path string) ([]byte, error)) ([]policy.Resource, []error) {
	var entries []entry
	var errs []error
	for _, path := range paths {
		data, err := read(path)
		if err != nil {
			errs = append(errs, &Error{File: path, Err: fmt.Errorf("read: %w", err)})
			continue
		}
		e, problems := r.decodeFile(path, data)
		entries = append(entries, e...)
		errs = append(errs, problems...)
	}
	return unique(entries, errs)
}

// ReadDir reads the files of a folder whose names end in .yaml, .yml or .json, in the order of
// their names. It returns the same as ReadFiles does. ReadDir ignores hidden files and
// subdirectories. Another entry with one of these endings may be neither a regular file nor a link
// to one. ReadDir does not open such an entry, and returns an *Error that wraps ErrNotRegular.
func (r Reader) ReadDir(dir string) ([]policy.Resource, []error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, []error{&Error{File: dir, Err: fmt.Errorf("read: %w", err)}}
	}
	var paths []string
	for _, f := range list {
		if !f.IsDir() && !strings.HasPrefix(f.Name(), ".") && slices.Contains(Extensions(), filepath.Ext(f.Name())) {
			paths = append(paths, filepath.Join(dir, f.Name()))
		}
	}
	return r.readFiles(paths, readRegular)
}

// Extensions returns the extensions of manifest files: .json, .yaml and .yml.
func Extensions() []string { return []string{".json", ".yaml", ".yml"} }

// entry has the resources of one object, and its position.
type entry struct {
	resources []policy.Resource
	origin    Error
}

// unique removes objects that are converted to the same resource as an earlier object, and adds an
// error for each. A datastore.Dir also uses the first object. If two nodes have the same pod CIDR,
// unique removes only the block of the second node. The second node itself stays, because rules
// that deny this node must still match it.
func unique(entries []entry, errs []error) ([]policy.Resource, []error) {
	first := map[policy.Key]Error{}
	var resources []policy.Resource
	for _, e := range entries {
		again := func(f Error, what string) {
			wrong := e.origin
			wrong.Err = fmt.Errorf("%w: %sfirst at %s line %d", ErrDuplicate, what, cmp.Or(f.File, "document"),
				f.Line)
			errs = append(errs, &wrong)
		}
		if f, twice := taken(first, e.resources); twice {
			again(f, "")
			continue
		}
		for _, r := range e.resources {
			if f, twice := first[r.Key()]; twice {
				again(f, "block "+r.Key().Name+": ")
				continue
			}
			first[r.Key()] = e.origin
			resources = append(resources, r)
		}
	}
	return resources, errs
}

// taken returns the position of the earlier object that is converted to one of the resources, other
// than blocks.
func taken(first map[policy.Key]Error, resources []policy.Resource) (Error, bool) {
	for _, r := range resources {
		if f, ok := first[r.Key()]; ok && r.Key().Kind != policy.KindBlock {
			return f, true
		}
	}
	return Error{}, false
}

// decodeFile decodes the documents of a file.
func (r Reader) decodeFile(file string, data []byte) ([]entry, []error) {
	if !utf8.Valid(data) {
		return nil, []error{&Error{File: file, Err: errors.New("the file is not UTF-8")}}
	}
	var entries []entry
	var errs []error
	for i, c := range split(data) {
		d := document{
			converter: r.Converter, rule: r.Rule, policy: r.Policy,
			origin: Error{File: file, Document: i + 1}, first: c.line,
		}
		d.decode(c)
		entries = append(entries, d.entries...)
		errs = append(errs, d.errs...)
	}
	return entries, errs
}

// syntaxError splits a parser's message into the line of the document and the cause.
func syntaxError(err error) (line int, cause error) {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		digits, message, _ := strings.Cut(rest, ": ")
		if n, convErr := strconv.Atoi(digits); convErr == nil {
			return n, errors.New(message)
		}
	}
	return 1, errors.New(text)
}
