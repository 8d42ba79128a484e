// SPDX-License-Identifier: Apache-2.0

package policysync_test

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/wire/internal/codec"
	"github.com/wayleave/wayleave/dataplane/wire/policysync/policysyncpb"
	"github.com/wayleave/wayleave/dataplane/wire/wirepb"
	"github.com/wayleave/wayleave/policy"
)

// fake is a server that sends the same responses to each call, and then ends it with a status, or
// waits.
type fake struct {
	policysyncpb.UnimplementedPolicySyncServer
	responses []any
	err       error
	// calls gets a token for each call, if it is not nil and not full.
	calls chan struct{}
}

// Sync implements policysyncpb.PolicySyncServer.
func (f *fake) Sync(_ *policysyncpb.SyncRequest, out grpc.ServerStreamingServer[policysyncpb.SyncResponse]) error {
	select {
	case f.calls <- struct{}{}:
	default:
	}
	for _, r := range f.responses {
		if err := out.SendMsg(r); err != nil {
			return err
		}
	}
	if f.err != nil {
		return f.err
	}
	<-out.Context().Done()
	return out.Context().Err()
}

// bytesCodec marshals messages, and passes bytes on unchanged, also if they are not a message.
type bytesCodec struct{}

// Marshal implements encoding.Codec.
func (bytesCodec) Marshal(v any) ([]byte, error) {
	if data, ok := v.([]byte); ok {
		return data, nil
	}
	return proto.Marshal(v.(proto.Message))
}

// Unmarshal implements encoding.Codec.
func (bytesCodec) Unmarshal(data []byte, v any) error {
	return proto.Unmarshal(data, v.(proto.Message))
}

// Name implements encoding.Codec.
func (bytesCodec) Name() string { return "proto" }

// serveFake returns the socket of a fake.
func serveFake(t *testing.T, f *fake) string {
	t.Helper()
	path := socketIn(t, "s")
	listener, err := net.Listen("unix", path)
	require.NoError(t, err)
	server := grpc.NewServer(grpc.ForceServerCodec(bytesCodec{}))
	policysyncpb.RegisterPolicySyncServer(server, f)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return path
}

// A client denies everything after a response that it does not understand, or that its gRPC library
// cannot read: the response may deny a packet. It also denies everything after each status except
// Unavailable.
func TestClientDeniesWhatItDoesNotUnderstand(t *testing.T) {
	state := &policysyncpb.SyncResponse{Snapshot: true, Events: []*wirepb.Event{
		{Event: &wirepb.Event_EndpointUpdate{EndpointUpdate: &wirepb.EndpointUpdate{Key: codec.EncodeKey(key("a"))}}},
		{Event: &wirepb.Event_InSync{InSync: &wirepb.InSync{}}},
	}}
	event := &policysyncpb.SyncResponse{Events: []*wirepb.Event{{}}}
	field := &policysyncpb.SyncResponse{}
	field.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 9, protowire.VarintType), 1))
	const tooLarge = 64<<20 + 1
	for name, c := range map[string]struct {
		fake
		reason string
	}{
		"event":         {fake{responses: []any{state, event}}, "cannot decode"},
		"field":         {fake{responses: []any{state, field}}, "cannot decode"},
		"changes first": {fake{responses: []any{&policysyncpb.SyncResponse{}}}, "cannot decode"},
		"not protobuf":  {fake{responses: []any{state, []byte{0xff}}}, "code = Internal"},
		"too large":     {fake{responses: []any{state, make([]byte, tooLarge)}}, "code = ResourceExhausted"},
		"other status":  {fake{responses: []any{state}, err: status.Error(codes.Unknown, "x")}, "code = Unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			client := watch(t, serveFake(t, &c.fake))
			client.until(t, dptest.NewState())
			d := client.client.State().Ingress(dptest.Packet{}, 0)
			require.Equal(t, policy.Deny, d.Action)
			require.Contains(t, d.By, c.reason)
		})
	}
}

// A client reports once that it denies everything, however often it tries again.
func TestClientReportsADenialOnce(t *testing.T) {
	f := &fake{err: status.Error(codes.FailedPrecondition, "x"), calls: make(chan struct{}, 3)}
	client := watch(t, serveFake(t, f))
	require.Eventually(t, func() bool { return len(f.calls) == cap(f.calls) }, waitTimeout, time.Millisecond)
	require.Len(t, client.states, 1)
}
