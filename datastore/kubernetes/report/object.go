// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/types"

	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/policy"
)

// The reasons of Events, and of conditions.
const (
	// ReasonRejected: the object has no effect.
	ReasonRejected = "Rejected"
	// ReasonRuleClosed: a rule of the policy is not understood. If it is an Allow or Log rule, it
	// matches nothing. Any other rule denies every packet that reaches it.
	ReasonRuleClosed = "RuleClosed"
	// ReasonFieldIgnored: the object is not a policy, and one of its fields has no effect.
	ReasonFieldIgnored = "FieldIgnored"
	// ReasonNotProgrammed: the policy or network of a pod cannot be programmed on its node. The
	// pod's traffic is dropped.
	ReasonNotProgrammed = "NotProgrammed"
	// ReasonAccepted: the policy has no problems. It is a reason of conditions only.
	ReasonAccepted = "Accepted"
)

// maxNote is the maximum length of an Event's message, in bytes.
const maxNote = 1024

// object has the problems of one object, and the last writes about them.
type object struct {
	uid          types.UID // empty if not known
	generation   int64     // 0 if it gets no condition
	converted    finding   // from its converter
	rejected     string    // why the graph rejects it
	doubt        string    // the doubts of the policy
	unprogrammed string    // why its endpoint cannot be programmed

	event, podEvent, condition lastWrite
}

// lastWrite is the last Event or condition that was written.
type lastWrite struct {
	written notice
	queued  bool
}

// notice is the content of an Event or a condition.
type notice struct {
	uid        types.UID
	generation int64
	finding
}

// finding is the problem of an object; the zero value means that there is none.
type finding struct{ reason, text string }

// finding returns the worst problem. The doubts of a policy usually repeat problems of its
// converter, which are preferred because they name the fields of the object.
func (o *object) finding() finding {
	switch {
	case o.converted.reason == ReasonRejected:
		return o.converted
	case o.rejected != "":
		return finding{ReasonRejected, o.rejected}
	case o.converted.reason == "" && o.doubt != "":
		return finding{ReasonRuleClosed, o.doubt}
	}
	return o.converted
}

func (o *object) empty() bool {
	return o.generation == 0 && o.finding() == finding{} && o.doubt == "" && o.unprogrammed == ""
}

// originOf returns the object of a key. If there is none, the result has no API version, and gets
// no Events.
func originOf(key policy.Key) convert.Object {
	if origin, ok := convert.Origin(key); ok {
		return origin
	}
	return convert.Object{Kind: string(key.Kind), Namespace: key.Namespace, Name: key.Name}
}

// converted returns the finding for the problems of a converter with an object of a kind.
func converted(kind string, problems []error) finding {
	v, texts := finding{reason: ReasonFieldIgnored}, []string{}
	if strings.HasSuffix(kind, "NetworkPolicy") {
		v.reason = ReasonRuleClosed
	}
	for _, err := range problems {
		if err == nil || errors.Is(err, convert.ErrIgnored) {
			continue
		}
		text := err.Error()
		if e := (*convert.Error)(nil); errors.As(err, &e) && e.Err != nil {
			text = policy.Problem{Field: e.Field, Msg: e.Err.Error()}.String()
			if e.Absent {
				v.reason = ReasonRejected
			}
		}
		texts = append(texts, text)
	}
	if len(texts) == 0 {
		return finding{}
	}
	v.text = join(texts)
	return v
}

func doubtText(doubt *policy.DoubtError) string {
	texts := make([]string, 0, len(doubt.Problems))
	for _, problem := range doubt.Problems {
		texts = append(texts, problem.String())
	}
	return cmp.Or(join(texts), clip(doubt.Error(), maxNote))
}

// join joins as many texts as fit into a message, and adds the number of the others.
func join(texts []string) string {
	var all strings.Builder
	for i, text := range texts {
		more := fmt.Sprintf(" (and %d more)", len(texts)-i)
		if i > 0 && all.Len()+len("; ")+len(text)+len(more) > maxNote {
			return all.String() + more
		}
		if i > 0 {
			all.WriteString("; ")
		}
		all.WriteString(clip(text, maxNote-len(more)))
	}
	return all.String()
}

// clip shortens a text to a number of bytes, and removes unprintable characters.
func clip(text string, limit int) string {
	text = policy.Problem{Msg: text}.String()
	if len(text) <= limit {
		return text
	}
	end := limit - len("...")
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "..."
}
