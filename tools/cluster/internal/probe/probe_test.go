// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"testing"
)

func TestPayloadIsParsed(t *testing.T) {
	for _, want := range []Payload{
		{Expect: Allow, From: "friend-node1", To: "guarded-node2", Sequence: 7},
		{Expect: Deny, From: "a", To: "b", Sequence: 1<<64 - 1, Backend: "guarded-node3"},
	} {
		got, err := ParsePayload(want.String())
		if err != nil || got != want {
			t.Errorf("ParsePayload(%q) = %+v, %v", want, got, err)
		}
	}
}

func TestOtherPayloadIsAnError(t *testing.T) {
	for _, text := range []string{
		"", "probe", "probe deny a b", "other deny a b 1", "probe deny a b x",
		"probe deny a b 1 c d",
	} {
		if _, err := ParsePayload(text); !errors.Is(err, errNoPayload) {
			t.Errorf("ParsePayload(%q) = %v", text, err)
		}
	}
}
