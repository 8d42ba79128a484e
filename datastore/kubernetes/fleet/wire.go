// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// meter counts what one node receives and sends.
type meter struct {
	// received and sent are the bytes of its connections, with TLS.
	received, sent atomic.Int64
	// events are the events of its watches, and eventBytes their bytes after decryption.
	events, eventBytes atomic.Int64
	requests, failed   atomic.Int64
	dials              atomic.Int64
	kinds              *kindMeters
}

// kindMeters counts by kind, for all nodes of a worker.
type kindMeters struct {
	mu    sync.Mutex
	kinds map[string]*kindMeter
}

// kindMeter counts one kind.
type kindMeter struct{ requests, events, bytes atomic.Int64 }

func (k *kindMeters) of(kind string) *kindMeter {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.kinds[kind] == nil {
		k.kinds[kind] = &kindMeter{}
	}
	return k.kinds[kind]
}

// dial opens a connection whose bytes are counted.
func (m *meter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	m.dials.Add(1)
	return &meteredConn{Conn: conn, meter: m}, nil
}

// meteredConn counts the bytes of a connection.
type meteredConn struct {
	net.Conn
	meter *meter
}

func (c *meteredConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.meter.received.Add(int64(n))
	return n, err
}

func (c *meteredConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.meter.sent.Add(int64(n))
	return n, err
}

// meteredTransport counts requests to an API server, and the events of its watches.
type meteredTransport struct {
	http.RoundTripper
	meter *meter
}

func (t meteredTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.RoundTripper.RoundTrip(r)
	kind := t.meter.kinds.of(kindOf(r.URL.Path))
	t.meter.requests.Add(1)
	kind.requests.Add(1)
	if err != nil || response.StatusCode >= http.StatusBadRequest {
		t.meter.failed.Add(1)
	}
	if err != nil {
		return response, err
	}
	body := &meteredBody{ReadCloser: response.Body, meter: t.meter, kind: kind}
	if r.URL.Query().Get("watch") != "" && response.StatusCode == http.StatusOK {
		body.frames = &lines{}
		if strings.Contains(response.Header.Get("Content-Type"), "protobuf") {
			body.frames = &prefixed{}
		}
	}
	response.Body = body
	return response, nil
}

// kindOf returns the kind in the path of a request: "pods" of "/api/v1/pods".
func kindOf(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if len(parts) < 3 || parts[0] == "apis" && len(parts) < 4 {
		return "discovery"
	}
	kind := parts[2]
	if parts[0] == "apis" {
		kind = parts[3] + "." + parts[1]
	}
	if kind == "namespaces" && len(parts) > 3 {
		kind = "cluster check"
	}
	return kind
}

// meteredBody counts the bytes of a response and, with frames, the events in it.
type meteredBody struct {
	io.ReadCloser
	meter  *meter
	kind   *kindMeter
	frames framing
}

func (b *meteredBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.kind.bytes.Add(int64(n))
	if b.frames != nil {
		events := int64(b.frames.count(p[:n]))
		b.meter.events.Add(events)
		b.meter.eventBytes.Add(int64(n))
		b.kind.events.Add(events)
	}
	return n, err
}

// framing counts the events that end in the next bytes of a stream. Bookmarks do not count.
type framing interface{ count(p []byte) int }

// opening is the beginning of a message, which has the type of the event.
type opening struct {
	text [24]byte
	size int
}

func (o *opening) append(p []byte) { o.size += copy(o.text[o.size:], p) }

// end ends the message. It returns 1 if it is an event, and 0 if it is a bookmark.
func (o *opening) end() int {
	bookmark := bytes.Contains(o.text[:o.size], []byte("BOOKMARK"))
	if o.size = 0; bookmark {
		return 0
	}
	return 1
}

// lines is a stream of lines.
type lines struct{ opening opening }

func (f *lines) count(p []byte) (n int) {
	for {
		line, rest, ended := bytes.Cut(p, []byte{'\n'})
		if f.opening.append(line); !ended {
			return n
		}
		n, p = n+f.opening.end(), rest
	}
}

// prefixed is a stream of messages, each after its length in 4 bytes.
type prefixed struct {
	header  [4]byte
	have    int    // bytes of the header
	rest    uint32 // bytes of the message that are still to come
	opening opening
}

func (f *prefixed) count(p []byte) (n int) {
	for len(p) > 0 {
		if f.have < len(f.header) {
			taken := copy(f.header[f.have:], p)
			f.have, p = f.have+taken, p[taken:]
			if f.have < len(f.header) {
				return n
			}
			f.rest = binary.BigEndian.Uint32(f.header[:])
		}
		taken := min(uint64(f.rest), uint64(len(p)))
		f.opening.append(p[:taken])
		f.rest, p = f.rest-uint32(taken), p[taken:]
		if f.rest == 0 {
			f.have = 0
			n += f.opening.end()
		}
	}
	return n
}

// stream counts the events of etcd's watches.
func (m *meter) stream(
	ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer,
	opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	s, err := streamer(ctx, desc, cc, method, opts...)
	m.requests.Add(1)
	if err != nil {
		return nil, err
	}
	return &meteredStream{ClientStream: s, meter: m}, nil
}

// unary counts requests to etcd.
func (m *meter) unary(
	ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker,
	opts ...grpc.CallOption,
) error {
	err := invoker(ctx, method, req, reply, cc, opts...)
	m.requests.Add(1)
	if err != nil {
		m.failed.Add(1)
	}
	return err
}

// meteredStream counts the events of one stream.
type meteredStream struct {
	grpc.ClientStream
	meter *meter
}

func (s *meteredStream) RecvMsg(message any) error {
	if err := s.ClientStream.RecvMsg(message); err != nil {
		return err
	}
	if r, ok := message.(*etcdserverpb.WatchResponse); ok {
		s.meter.events.Add(int64(len(r.Events)))
		s.meter.eventBytes.Add(int64(r.Size()))
		kind := s.meter.kinds.of("watch")
		kind.events.Add(int64(len(r.Events)))
		kind.bytes.Add(int64(r.Size()))
	}
	return nil
}
