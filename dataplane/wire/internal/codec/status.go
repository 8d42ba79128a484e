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

// maxText is the maximum length of a reason or a detail in bytes.
const maxText = 4096

// EncodeStatus returns the status of the objects in an error that a dataplane.Dataplane returned: one for each
// object, and one without an object if there are other errors.
func EncodeStatus(err error) []*wirepb.ObjectStatus {
	if err == nil {
		return nil
	}
	objects, general := dataplane.ApplyErrors(err)
	var out []*wirepb.ObjectStatus
	if general {
		out = append(out, &wirepb.ObjectStatus{Status: wirepb.Status_STATUS_FAILED, Reason: Text(err.Error())})
	}
	for _, key := range slices.SortedFunc(maps.Keys(objects), policy.Key.Compare) {
		e := objects[key]
		m := &wirepb.ObjectStatus{
			Object: EncodeKey(key), Status: wirepb.Status_STATUS_FAILED, Backend: Text(e.Backend),
			Operation: Text(e.Op), Detail: Text(e.Detail),
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
		out = append(out, m)
	}
	return out
}

// DecodeStatus returns the error of a list: a join of one *dataplane.ApplyError for each object that is not programmed
// or gone. It returns nil if there are none.
func DecodeStatus(list []*wirepb.ObjectStatus) error {
	var errs []error
	for _, m := range list {
		e := &dataplane.ApplyError{
			Backend: m.GetBackend(), Op: m.GetOperation(), Object: DecodeKey(m.GetObject()), Detail: m.GetDetail(),
			Err: errors.New(m.GetReason()),
		}
		switch m.GetStatus() {
		case wirepb.Status_STATUS_PROGRAMMED, wirepb.Status_STATUS_GONE:
			continue
		case wirepb.Status_STATUS_FAILED:
		case wirepb.Status_STATUS_PENDING:
			e.Pending = true
		case wirepb.Status_STATUS_DOWN:
			e.Down = true
		default:
			e.Object, e.Err = policy.Key{}, fmt.Errorf("unknown status %d of %s", m.GetStatus(), e.Object)
		}
		errs = append(errs, e)
	}
	return errors.Join(errs...)
}

// Text makes a text valid for a message, and not too long.
func Text(text string) string {
	text = strings.ToValidUTF8(text, "?")
	if len(text) <= maxText {
		return text
	}
	end := maxText
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}
