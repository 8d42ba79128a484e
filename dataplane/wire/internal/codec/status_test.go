// SPDX-License-Identifier: Apache-2.0

package codec_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/wire/internal/codec"
	"github.com/wayleave/wayleave/dataplane/wire/wirepb"
	"github.com/wayleave/wayleave/policy"
)

func endpointKey(name string) policy.Key {
	return policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "shop", Name: name}
}

func TestKeys(t *testing.T) {
	key := endpointKey("web")
	require.Equal(t, key, codec.DecodeKey(codec.EncodeKey(key)))
	require.Equal(t, policy.Key{}, codec.DecodeKey(nil))
}

// TestStatusArrives: errors of objects arrive unchanged, sorted by key.
func TestStatusArrives(t *testing.T) {
	require.Nil(t, codec.EncodeStatus(nil))
	require.NoError(t, codec.DecodeStatus(nil))
	failed := &dataplane.ApplyError{
		Backend: "nft", Op: "add", Object: endpointKey("a"), Detail: "extack", Err: errors.New("x"),
	}
	down := &dataplane.ApplyError{Object: endpointKey("b"), Err: errors.New("y"), Down: true}
	pending := &dataplane.ApplyError{Object: endpointKey("c"), Err: errors.New("z"), Pending: true}
	sent := errors.Join(pending, fmt.Errorf("wrapped: %w", errors.Join(down, failed)))
	require.Equal(t, errors.Join(failed, down, pending), codec.DecodeStatus(codec.EncodeStatus(sent)))
}

// TestStatusOfGeneralError: an error without an object is last, with the text of the whole error.
func TestStatusOfGeneralError(t *testing.T) {
	object := &dataplane.ApplyError{Backend: "nft", Op: "add", Object: endpointKey("a"), Err: errors.New("x")}
	sent := errors.Join(errors.New("no netlink"), object)
	list := codec.EncodeStatus(sent)
	require.Len(t, list, 2)
	require.Nil(t, list[1].GetObject())
	require.Equal(t, wirepb.Status_STATUS_FAILED, list[1].GetStatus())
	require.Equal(t, sent.Error(), list[1].GetReason())
	objects, general := dataplane.ApplyErrors(codec.DecodeStatus(list))
	require.True(t, general)
	require.Equal(t, map[policy.Key]*dataplane.ApplyError{object.Object: object}, objects)
}

// TestStatusHasValidTexts: a text of a kernel or a program can be long, or invalid UTF-8, which
// protobuf refuses.
func TestStatusHasValidTexts(t *testing.T) {
	long := "\xff" + strings.Repeat("ä", 5000)
	bad := endpointKey("b\xff")
	list := codec.EncodeStatus(errors.Join(
		&dataplane.ApplyError{
			Backend: "\xff", Op: "\xff", Object: endpointKey("a"), Detail: long, Err: errors.New(long),
		},
		&dataplane.ApplyError{Object: bad, Err: errors.New("x")},
	))
	require.Len(t, list, 2)
	for _, m := range list {
		_, err := proto.Marshal(m)
		require.NoError(t, err)
	}
	require.Equal(t, "?"+strings.Repeat("ä", 2047), list[0].GetReason())
	require.Equal(t, list[0].GetReason(), list[0].GetDetail())
	require.Nil(t, list[1].GetObject(), "an identity must not be changed")

	require.Equal(t, "short", codec.Text("short"))
	require.Equal(t, strings.Repeat("a", 4096), codec.Text(strings.Repeat("a", 4097)))
	for n := range 5 {
		text := codec.Text(strings.Repeat("a", 4090+n) + strings.Repeat("\U0001f600", 9))
		require.True(t, utf8.ValidString(text))
		require.LessOrEqual(t, len(text), 4096)
		require.Greater(t, len(text), 4092)
	}
}

func TestDecodeStatus(t *testing.T) {
	object, half := codec.EncodeKey(endpointKey("a")), &wirepb.Key{Kind: "Policy"}
	const failed, pending = wirepb.Status_STATUS_FAILED, wirepb.Status_STATUS_PENDING
	for _, tt := range []struct {
		name    string
		message *wirepb.ObjectStatus
		want    string // nothing if there is no error
		general bool
	}{
		{"programmed", &wirepb.ObjectStatus{Object: object, Status: wirepb.Status_STATUS_PROGRAMMED}, "", false},
		{"gone", &wirepb.ObjectStatus{Object: object, Status: wirepb.Status_STATUS_GONE}, "", false},
		{
			"failed",
			&wirepb.ObjectStatus{Object: object, Status: failed, Backend: "nft", Operation: "add", Reason: "x"},
			"nft: add WorkloadEndpoint/shop/a: x", false,
		},
		{
			"no object", &wirepb.ObjectStatus{Status: failed, Backend: "nft", Operation: "add", Reason: "x"},
			"nft: add: x", true,
		},
		{"half an object", &wirepb.ObjectStatus{Object: half, Status: pending, Reason: "x"}, ": : x", true},
		{
			"unspecified", &wirepb.ObjectStatus{Object: object, Reason: "x"},
			": : unknown status 0 of WorkloadEndpoint/shop/a: x", true,
		},
		{
			"unknown", &wirepb.ObjectStatus{Object: object, Status: 99, Reason: "x"},
			": : unknown status 99 of WorkloadEndpoint/shop/a: x", true,
		},
		{"nil", nil, ": : unknown status 0 of /: ", true},
	} {
		err := codec.DecodeStatus([]*wirepb.ObjectStatus{tt.message})
		if tt.want == "" {
			require.NoError(t, err, tt.name)
			continue
		}
		require.EqualError(t, err, tt.want, tt.name)
		objects, general := dataplane.ApplyErrors(err)
		require.Equal(t, tt.general, general, tt.name)
		require.Equal(t, tt.general, len(objects) == 0, tt.name)
		var e *dataplane.ApplyError
		require.ErrorAs(t, err, &e)
		require.False(t, tt.general && (e.Pending || e.Down), tt.name)
	}
}
