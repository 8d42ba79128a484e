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

// maxText is the maximum length of a text in bytes.
const maxText = 4096

// EncodeStatus returns the status of the objects in an error that a dataplane.Dataplane returned: one for each object,
// sorted by key, and one without an object if there are other errors. Nil gives nil.
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

// isValid reports whether a message can have the key, and the receiver takes it for that of an object.
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

// DecodeStatus returns the error of a list: a join of one *dataplane.ApplyError for each object that is failed, pending
// or down. It returns nil if there are none. A status that is unknown, or of no object, gives an ApplyError without
// Object: nothing is known of any object then.
func DecodeStatus(list []*wirepb.ObjectStatus) error {
	var errs []error
	for _, m := range list {
		if e := decodeObject(m); e != nil {
			errs = append(errs, e)
		}
	}
	return errors.Join(errs...)
}

// decodeObject returns nil if the object is programmed or gone.
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

// Text returns a text that a message can have: valid UTF-8, cut to 4096 bytes at the end of a character.
func Text(text string) string {
	text = strings.ToValidUTF8(text, "?")
	if len(text) <= maxText {
		return text
	}
	return text[:runeStart(text, maxText)]
}

// runeStart returns the beginning of the character that the byte at an index of a text is in. The text may be invalid.
func runeStart(text string, index int) int {
	for index > 0 && !utf8.RuneStart(text[index]) {
		index--
	}
	return index
}
