// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/policy"
)

// Sentinel errors for an object, for errors.Is. A known field or kind that is not supported wraps
// convert.ErrNotSupported.
var (
	// ErrUnknownKind means that objects of this apiVersion and kind are not converted.
	ErrUnknownKind = errors.New("unknown kind")
	// ErrUnknownField means that objects of the kind do not have the field.
	ErrUnknownField = errors.New("unknown field")
	// ErrDuplicate means that an earlier object is converted to the same resource. The earlier
	// object is used.
	ErrDuplicate = errors.New("given more than once")
)

// Error is one problem of a manifest. It does not change, so it is safe for concurrent use.
type Error struct {
	// File is the name of the file, as passed by the caller.
	File string
	// Document is the number of the YAML or JSON document in the file, from 1 on. 0 means the whole
	// file.
	Document int
	// Line is the line of the field in the file, from 1 on. If the field is not in the file, Line
	// is the line of its nearest parent that is in the file. 0 means unknown.
	Line int
	// Object is the API object, as far as it could be read. If a list itself has an error, Object
	// has only the kind "List". If the error is in a value that is not an object, Object is empty.
	Object convert.Object
	// Field is the path of the field in the document, as in "spec.ingress[0].ports[1]" or, in a
	// list, "items[4].spec.order". Empty means the object as a whole.
	Field string
	// Err is the cause.
	Err error
}

// Error returns one line, "file: document 3: line 41: object: field: cause", and omits unknown
// parts. It escapes characters that are not printable, in the same way as a Go string does.
func (e *Error) Error() string {
	parts := make([]string, 0, 6)
	if e.File != "" {
		parts = append(parts, e.File)
	}
	if e.Document > 0 {
		parts = append(parts, fmt.Sprintf("document %d", e.Document))
	}
	if e.Line > 0 {
		parts = append(parts, fmt.Sprintf("line %d", e.Line))
	}
	if object := e.Object.String(); object != "" {
		parts = append(parts, object)
	}
	if e.Field != "" {
		parts = append(parts, e.Field)
	}
	return policy.Problem{Msg: strings.Join(append(parts, e.Err.Error()), ": ")}.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
