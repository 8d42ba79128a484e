// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/policy"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Sentinel errors, for errors.Is.
var (
	// ErrNotSupported means that the API has a field or a kind that Wayleave does not support.
	ErrNotSupported = errors.New("not supported by Wayleave")
	// ErrIgnored means that an object or a part of it intentionally has no effect. Examples are a
	// Service, and a selector over a label that no pod has. ErrIgnored is not a fault.
	ErrIgnored = errors.New("ignored")
)

// Error is one problem of one object. It does not change, so it is safe for concurrent use.
type Error struct {
	// Object is the object, even if its name is invalid.
	Object Object
	// Field is the path of the field in the object, as in "spec.ingress[0].ports[1].endPort".
	// Empty means the object as a whole.
	Field string
	// Err is the cause.
	Err error
	// Absent is true if no resource was made from the object, so the object has no effect. If it is
	// false, only a part of the object is left out, or some rules of a policy are closed (see
	// policy.Rule.Close).
	Absent bool
}

// Error returns one line, "object: field: cause". If the field is empty, the line is "object:
// cause". Characters that are not printable are escaped, in the same way as in a Go string.
func (e *Error) Error() string {
	text := fmt.Sprintf("%s: %v", e.Object, e.Err)
	if e.Field != "" {
		text = fmt.Sprintf("%s: %s: %v", e.Object, e.Field, e.Err)
	}
	return policy.Problem{Msg: text}.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// problems collects the problems of one object.
type problems struct {
	object   Object
	list     []error // errors that prevent the conversion of the object, or of the present rule
	warnings []error // parts that are left out, and ErrIgnored
}

func (p *problems) add(field string, err error) {
	p.list = append(p.list, &Error{Object: p.object, Field: field, Err: err})
}

func (p *problems) addf(field, format string, args ...any) {
	p.add(field, fmt.Errorf(format, args...))
}

// warn reports a problem that does not prevent the conversion.
func (p *problems) warn(field string, err error) {
	p.warnings = append(p.warnings, &Error{Object: p.object, Field: field, Err: err})
}

func (p *problems) warnf(field, format string, args ...any) {
	p.warn(field, fmt.Errorf(format, args...))
}

// all returns all problems.
func (p *problems) all() []error { return slices.Concat(p.list, p.warnings) }

// refused returns all problems of an object that gives no resource.
func (p *problems) refused() []error {
	all := p.all()
	for _, err := range all {
		if e := (*Error)(nil); errors.As(err, &e) {
			e.Absent = true
		}
	}
	return all
}

// reserve reports an error if the name has one of the prefixes, which only names that this package
// makes may have.
func (p *problems) reserve(name string, prefixes ...string) {
	for _, prefix := range prefixes {
		if strings.HasPrefix(name, prefix) {
			p.addf("metadata.name", "names that begin with %q are reserved for converted Kubernetes objects: use "+
				"the Kubernetes object instead", prefix)
		}
	}
}

// unsupported reports the field if it is set.
func (p *problems) unsupported(field string, set bool) {
	if set {
		p.add(field, ErrNotSupported)
	}
}

// any reports whether there are problems.
func (p *problems) any() bool { return len(p.list) > 0 }

// begin begins the conversion of an object. It returns the problems of the object's metadata, and
// the namespace of the object. A namespaced object without a namespace is in "default".
func begin(apiVersion, kind string, meta metav1.Object, namespaced bool) (*problems, string) {
	namespace := meta.GetNamespace()
	if namespace == "" && namespaced {
		namespace = metav1.NamespaceDefault
	}
	p := &problems{object: Object{
		APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: meta.GetName(), UID: meta.GetUID(),
	}}
	if meta.GetName() == "" {
		p.addf("metadata.name", "a name is required")
	}
	switch {
	case namespace == "":
	case !namespaced:
		p.addf("metadata.namespace", "objects of this kind have no namespace")
	default:
		// A namespace without dots makes names of namespace and name unique.
		for _, msg := range validation.IsDNS1123Label(namespace) {
			p.addf("metadata.namespace", "%s", msg)
		}
	}
	return p, namespace
}

// validate reports the problems of a finished resource. The function path converts the path of a
// field of the resource to the path of the field in the object.
func validate(r policy.Resource, p *problems, path func(field string) string) {
	err := r.Validate()
	if err == nil {
		return
	}
	var invalid *policy.ValidationError
	if !errors.As(err, &invalid) {
		p.add("", err)
		return
	}
	for _, problem := range invalid.Problems {
		p.add(path(problem.Field), errors.New(problem.Msg))
	}
}

// refusal returns the first problem of a resource, or nil. To check one part of an object, put that
// part into a resource that is otherwise valid.
func refusal(r policy.Resource) error {
	err := r.Validate()
	var invalid *policy.ValidationError
	if errors.As(err, &invalid) && len(invalid.Problems) > 0 {
		return errors.New(invalid.Problems[0].Msg)
	}
	return err
}

// renamed returns a function for validate, which replaces a prefix of a path. The pairs are (old
// prefix, new prefix). The function uses the first pair whose old prefix the path has. Every path
// has the prefix "".
func renamed(pairs ...string) func(string) string {
	return func(field string) string {
		for i := 0; i+1 < len(pairs); i += 2 {
			rest, ok := strings.CutPrefix(field, pairs[i])
			if ok && (pairs[i] == "" || rest == "" || rest[0] == '.' || rest[0] == '[') {
				return strings.TrimSuffix(pairs[i+1]+rest, ".")
			}
		}
		return field
	}
}
