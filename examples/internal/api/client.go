// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"syscall"
	"time"
)

// ErrNoAgent means that no process listens on the socket.
var ErrNoAgent = errors.New(
	"no agent is running there: start one with 'agent run', or set its socket with --socket",
)

// ErrRefused means that the socket belongs to another user.
var ErrRefused = errors.New("only root and the user that runs the agent may connect to it: use sudo")

// ErrNoAnswer is returned if the agent accepts a connection and does not answer in time.
var ErrNoAnswer = errors.New("the agent is suspended or busy: see its process and log, or wait longer with --timeout")

// ErrEnded is returned if the agent closes the connection before it has answered, or during a
// stream.
var ErrEnded = errors.New("the agent has ended or closed the connection: look at its log")

// Error is the error of the agent for a request that failed.
type Error struct {
	// Status is the HTTP status.
	Status int
	// Message is the agent's message.
	Message string
	// Body is the body of the answer, if it is not a message of the agent.
	Body []byte
}

// Error returns the agent's message.
func (e *Error) Error() string { return e.Message }

// Client sends requests to an agent. It is safe for concurrent use.
type Client struct {
	socket  string
	http    *http.Client
	timeout time.Duration
}

// NewClient returns a client of the agent that listens at a socket. It does not connect yet.
func NewClient(socket string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
	return &Client{
		socket: socket, http: &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}},
	}
}

// WithTimeout returns a client that waits at most d for an answer. For Stream, this is the time
// until the answer begins. 0 means no limit.
func (c *Client) WithTimeout(d time.Duration) *Client {
	limited := *c
	limited.timeout = d
	return &limited
}

// limit returns a context that ends with ErrNoAnswer after the client's timeout. A call of answered
// before that time stops the timeout. done releases the context.
func (c *Client) limit(ctx context.Context) (limited context.Context, answered, done func()) {
	limited, cancel := context.WithCancelCause(ctx)
	answered = func() {}
	if c.timeout > 0 {
		timer := time.AfterFunc(c.timeout, func() { cancel(ErrNoAnswer) })
		answered = func() { timer.Stop() }
	}
	return limited, answered, func() {
		answered()
		cancel(nil)
	}
}

// explain wraps an error of a connection. It adds the error of this package that explains the
// cause.
func (c *Client) explain(ctx context.Context, err error) error {
	switch {
	case errors.Is(context.Cause(ctx), ErrNoAnswer):
		return fmt.Errorf("%s: no answer after %s: %w", c.socket, c.timeout, ErrNoAnswer)
	case errors.Is(err, syscall.EAGAIN):
		return fmt.Errorf("%s: too many connections wait: %w", c.socket, ErrNoAnswer)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%s: %w", c.socket, ErrNoAgent)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: %w", c.socket, ErrRefused)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return fmt.Errorf("%s: %w", c.socket, ErrEnded)
	}
	return fmt.Errorf("agent at %s: %w", c.socket, err)
}

// Get sends a request and returns the answer. Errors: *Error, ErrNoAgent, ErrRefused, ErrNoAnswer,
// ErrEnded, and those of the connection.
func Get[T any](ctx context.Context, c *Client, path string) (T, error) {
	return Send[T](ctx, c, http.MethodGet, path, nil)
}

// Send sends a request with a body, which may be nil, and returns the answer. Errors as for Get.
func Send[T any](ctx context.Context, c *Client, method, path string, body any) (answer T, err error) {
	ctx, _, done := c.limit(ctx)
	defer done()
	response, err := c.do(ctx, method, path, body)
	if err != nil {
		return answer, err
	}
	defer func() { _ = response.Body.Close() }()
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil && !errors.Is(err, io.EOF) {
		return answer, c.explain(ctx, err)
	}
	return answer, nil
}

// Raw does the same as Get, for an answer that is not JSON. Errors: as for Get.
func (c *Client) Raw(ctx context.Context, path string) ([]byte, error) {
	ctx, _, done := c.limit(ctx)
	defer done()
	response, err := c.do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, c.explain(ctx, err)
	}
	return data, nil
}

// Stream sends a request whose answer is a stream of values, and calls do(value) for each of them.
// Stream returns when ctx is done, when the agent ends, or when do(value) returns an error. Errors:
// as for Get, and the error of do(value).
func Stream[T any](ctx context.Context, c *Client, path string, do func(T) error) error {
	ctx, answered, done := c.limit(ctx)
	defer done()
	response, err := c.do(ctx, http.MethodGet, path, nil)
	answered() // the stream has no timeout
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	parts := json.NewDecoder(response.Body)
	for {
		var part T
		if err := parts.Decode(&part); err != nil {
			if ctx.Err() != nil || errors.Is(err, io.EOF) {
				return ctx.Err()
			}
			return c.explain(ctx, err)
		}
		if err := do(part); err != nil {
			return err
		}
	}
}

func (c *Client) do(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(data)
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://agent"+path, content)
	if err != nil {
		return nil, err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, c.explain(ctx, err)
	}
	if response.StatusCode < http.StatusMultipleChoices {
		return response, nil
	}
	defer func() { _ = response.Body.Close() }()
	var failure Failure
	data, _ := io.ReadAll(response.Body) // if it fails, the status is sufficient
	_ = json.Unmarshal(data, &failure)
	if failure.Error != "" {
		data = nil
	} else {
		failure.Error = fmt.Sprintf("agent at %s: %s", c.socket, response.Status)
	}
	return nil, &Error{Status: response.StatusCode, Message: failure.Error, Body: data}
}
