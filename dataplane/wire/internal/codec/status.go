// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/wire/wirepb"
	"github.com/wayleave/wayleave/policy"
)

// maxText is the maximum length in bytes of a result of Text.
const maxText = 4096

// EncodeStatus converts an error of a dataplane.Dataplane to a list of statuses. The list has one
// status for each object that the error names, sorted by key. Errors that name no object are joined
// in one more status, which has no object. For a nil error, the list is nil.
func EncodeStatus(err error) []*wirepb.ObjectStatus {
	if err == nil {
		return nil
	}
	objects, general := dataplane.ApplyErrors(err)
	var out []*wirepb.ObjectStatus
	for _, key := range slices.SortedFunc(maps.Keys(objects), policy.Key.Compare) {
		if !isValid(key) {
			general = true
			continue
		}
		out = append(out, encodeObject(objects[key]))
	}
	if general {
		out = append(out, &wirepb.ObjectStatus{Status: wirepb.Status_STATUS_FAILED, Reason: Text(err.Error())})
	}
	return out
}

// isValid reports whether a key can be encoded and identifies an object: it is valid UTF-8 and has
// a kind and a name.
func isValid(k policy.Key) bool {
	text := string(k.Kind) + k.Namespace + k.Name
	return k.Kind != "" && k.Name != "" && utf8.ValidString(text)
}

func encodeObject(e *dataplane.ApplyError) *wirepb.ObjectStatus {
	m := &wirepb.ObjectStatus{
		Object: EncodeKey(e.Object), Status: wirepb.Status_STATUS_FAILED,
		Backend: Text(e.Backend), Operation: Text(e.Op), Detail: Text(e.Detail),
	}
	switch {
	case e.Pending:
		m.Status = wirepb.Status_STATUS_PENDING
	case e.Down:
		m.Status = wirepb.Status_STATUS_DOWN
	}
	if e.Err != nil {
		m.Reason = Text(e.Err.Error())
	}
	return m
}

// DecodeStatus converts a list of statuses to an error. It joins one *dataplane.ApplyError for each
// object that is failed, pending or down. If a status is unknown or names no object, its ApplyError
// has no Object, which means that the state of all objects is unknown. If all objects are
// programmed or gone, the error is nil.
func DecodeStatus(list []*wirepb.ObjectStatus) error {
	var errs []error
	for _, m := range list {
		if e := decodeObject(m); e != nil {
			errs = append(errs, e)
		}
	}
	return errors.Join(errs...)
}

// decodeObject decodes one status. It returns nil if the object is programmed or gone.
func decodeObject(m *wirepb.ObjectStatus) *dataplane.ApplyError {
	e := &dataplane.ApplyError{
		Backend: m.GetBackend(), Op: m.GetOperation(), Object: DecodeKey(m.GetObject()), Detail: m.GetDetail(),
		Err: errors.New(m.GetReason()),
	}
	known := true
	switch m.GetStatus() {
	case wirepb.Status_STATUS_PROGRAMMED, wirepb.Status_STATUS_GONE:
		return nil
	case wirepb.Status_STATUS_FAILED:
	case wirepb.Status_STATUS_PENDING:
		e.Pending = true
	case wirepb.Status_STATUS_DOWN:
		e.Down = true
	default:
		known = false
		e.Err = fmt.Errorf("unknown status %d of %s: %s", int32(m.GetStatus()), e.Object, m.GetReason())
	}
	if !known || !isValid(e.Object) {
		e.Object, e.Pending, e.Down = policy.Key{}, false, false
	}
	return e
}

// Text returns the text as valid UTF-8 of at most 4096 bytes. It cuts a longer text between two
// characters.
func Text(text string) string {
	text = strings.ToValidUTF8(text, "?")
	if len(text) <= maxText {
		return text
	}
	return text[:runeStart(text, maxText)]
}

// runeStart returns the index of the first byte of the character that contains the byte at index.
// The text may be invalid UTF-8.
func runeStart(text string, index int) int {
	for index > 0 && !utf8.RuneStart(text[index]) {
		index--
	}
	return index
}
