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
	// ReasonRuleClosed: a rule of the policy is not understood. It allows nothing, or denies
	// everything.
	ReasonRuleClosed = "RuleClosed"
	// ReasonFieldIgnored: a part of an object that is no policy has no effect.
	ReasonFieldIgnored = "FieldIgnored"
	// ReasonNotProgrammed: the pod's policy or network cannot be programmed on its node. Its
	// traffic is dropped.
	ReasonNotProgrammed = "NotProgrammed"
	// ReasonAccepted: of a condition, nothing is wrong with the policy.
	ReasonAccepted = "Accepted"
)

// maxNote is the length of a note that the API accepts, in bytes.
const maxNote = 1024

// object is what is known of one object.
type object struct {
	uid          types.UID // empty if not known
	generation   int64     // 0 if it gets no condition
	converted    finding   // of its converter
	rejected     string    // by the graph; why
	doubt        string    // of its policy in force
	unprogrammed string    // why its endpoint cannot be programmed

	event, podEvent, condition lastWrite
}

// lastWrite is what was last written for one purpose.
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

// finding is what is wrong with an object; the zero value is nothing.
type finding struct{ reason, text string }

// finding returns the worst that is known. The doubts of a policy are usually among the problems of
// its object, which name the fields of that.
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

// converted returns what is wrong with an object of a kind, by the problems of its converter.
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

// join returns as many texts as a note can have, and the number of the others.
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

// clip returns a text in at most a number of bytes, without unprintable characters.
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
