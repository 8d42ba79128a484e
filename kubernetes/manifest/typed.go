// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/kubernetes/convert/calico"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	sigsjson "sigs.k8s.io/json"
)

var errNull = errors.New("null is not a value: remove the field, or set it")

// fieldError is an error of a field of an object.
type fieldError struct {
	field string
	err   error
}

// decodeTyped fills an object from its value, and reports every field that does not fit.
func decodeTyped(value map[string]any, newObject func() metav1.Object) (metav1.Object, []fieldError) {
	object := newObject()
	if found := decodeStrict(value, object, func() any { return newObject() }); len(found) > 0 {
		return nil, found
	}
	return object, nil
}

// decodeStrict decodes a JSON value into a Go value, and reports every field that does not fit. The
// argument newObject makes an empty Go value, to find these fields.
func decodeStrict(value map[string]any, into any, newObject func() any) []fieldError {
	data, err := json.Marshal(value)
	if err != nil {
		return []fieldError{{err: err}}
	}
	strict, err := sigsjson.UnmarshalStrict(data, into)
	if err != nil {
		return misfits(value, newObject)
	}
	var found []fieldError
	for _, err := range strict {
		var at sigsjson.FieldError
		switch {
		case !errors.As(err, &at):
			found = append(found, fieldError{err: err})
		case at.FieldPath() == "status", strings.HasPrefix(at.FieldPath(), "status."):
			// The cluster writes the status. Its version may be newer.
		default:
			found = append(found, fieldError{field: at.FieldPath(), err: ErrUnknownField})
		}
	}
	return found
}

// nulls returns the fields in the spec of a Calico object that are null. The decoder treats them as
// absent, and an absent selector or list of nets means no limit. Kubernetes' own kinds define null
// as absent. Calico's kinds refuse it, like the JSON of package policy.
func nulls(id identity, object map[string]any) []fieldError {
	if id.apiVersion != calico.APIVersion {
		return nil
	}
	spec, ok := object["spec"]
	if !ok {
		return nil
	}
	fields, ok := spec.(map[string]any)
	if !ok {
		return findNulls(spec, "spec")
	}
	var found []fieldError
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if newRule(id, key) == nil { // rules are decoded one by one
			found = append(found, findNulls(fields[key], joinKey("spec", key))...)
		}
	}
	return found
}

// findNulls returns the fields that are null in a value at a path.
func findNulls(value any, path string) []fieldError {
	var found []fieldError
	switch v := value.(type) {
	case nil:
		found = append(found, fieldError{path, errNull})
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			found = append(found, findNulls(v[key], joinKey(path, key))...)
		}
	case []any:
		for i, child := range v {
			found = append(found, findNulls(child, fmt.Sprintf("%s[%d]", path, i))...)
		}
	}
	return found
}

// misfits returns the values that cannot be decoded. The decoder returns only some of their paths,
// and none with indices. So each branch of the value is decoded again on its own. If it fails,
// misfits looks for the cause in its own branches. If none of these fails, or if the branch has the
// wrong type, it is the cause itself.
func misfits(value any, newObject func() any) []fieldError {
	var found []fieldError
	var search func(value any, path string, wrap func(any) any)
	search = func(value any, path string, wrap func(any) any) {
		if len(found) > maxProblems {
			return
		}
		err := tryDecode(wrap(value), newObject())
		if err == nil {
			return
		}
		before := len(found)
		switch v := value.(type) {
		case map[string]any:
			if tryDecode(wrap(map[string]any{}), newObject()) != nil {
				break // no mapping belongs here
			}
			for _, key := range slices.Sorted(maps.Keys(v)) {
				search(v[key], joinKey(path, key), func(child any) any { return wrap(map[string]any{key: child}) })
			}
		case []any:
			if tryDecode(wrap([]any{}), newObject()) != nil {
				break // no list belongs here
			}
			for i, child := range v {
				search(child, fmt.Sprintf("%s[%d]", path, i), func(child any) any { return wrap([]any{child}) })
			}
		}
		if len(found) == before {
			found = append(found, fieldError{field: path, err: plainly(err)})
		}
	}
	search(value, "", func(v any) any { return v })
	return found
}

func tryDecode(value, object any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return sigsjson.UnmarshalCaseSensitivePreserveInts(data, object)
}

// plainly describes the type error of a value without the names of Go's types.
func plainly(err error) error {
	var mismatch *json.UnmarshalTypeError
	if !errors.As(err, &mismatch) {
		return err
	}
	want := mismatch.Type.String()
	switch mismatch.Type.Kind() {
	case reflect.Bool:
		want = "true or false"
	case reflect.String:
		want = "text (in quotes if it looks like a number)"
	case reflect.Slice, reflect.Array:
		want = "a list"
	case reflect.Map, reflect.Struct:
		want = "a mapping"
	case reflect.Float32, reflect.Float64:
		want = "a number"
	case reflect.Int, reflect.Int32, reflect.Int64:
		want = "a whole number of at most " + fmt.Sprint(mismatch.Type.Bits()) + " bits"
	}
	return fmt.Errorf("want %s, not %s", want, mismatch.Value)
}
