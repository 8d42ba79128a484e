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
)

// ErrNoAgent is returned where nobody listens at the socket.
var ErrNoAgent = errors.New("no agent is running there: start one with 'agent run', or say with --socket where it listens")

// ErrRefused is returned where the socket belongs to another user.
var ErrRefused = errors.New("only root and the user that runs the agent may ask it")

// Error is the agent's answer where it is no success. It is plain data.
type Error struct {
	// Status of HTTP.
	Status int
	// Message of the agent.
	Message string
}

// Error returns the agent's message.
func (e *Error) Error() string { return e.Message }

// Client talks to an agent. It is safe for concurrent use.
type Client struct {
	socket string
	http   *http.Client
}

// NewClient returns a client of the agent that listens at a socket. It does not connect yet.
func NewClient(socket string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
	return &Client{socket: socket, http: &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}}
}

// Get asks for something. Errors: *Error, ErrNoAgent, ErrRefused, and those of the connection.
func Get[T any](ctx context.Context, c *Client, path string) (T, error) {
	return Send[T](ctx, c, http.MethodGet, path, nil)
}

// Send sends a request with a body, which may be nil, and returns the answer. Errors as for Get.
func Send[T any](ctx context.Context, c *Client, method, path string, body any) (answer T, err error) {
	response, err := c.do(ctx, method, path, body)
	if err != nil {
		return answer, err
	}
	defer func() { _ = response.Body.Close() }()
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil && !errors.Is(err, io.EOF) {
		return answer, fmt.Errorf("agent at %s: %w", c.socket, err)
	}
	return answer, nil
}

// Raw asks for something that is no JSON. Errors: as for Get.
func (c *Client) Raw(ctx context.Context, path string) ([]byte, error) {
	response, err := c.do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	return io.ReadAll(response.Body)
}

// Stream asks for something that the agent tells bit by bit, and calls do for each until ctx is done, the agent ends or do
// fails. Errors: as for Get, and do's.
func Stream[T any](ctx context.Context, c *Client, path string, do func(T) error) error {
	response, err := c.do(ctx, http.MethodGet, path, nil)
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
			return fmt.Errorf("agent at %s: %w", c.socket, err)
		}
		if err := do(part); err != nil {
			return err
		}
	}
}

func (c *Client) do(ctx context.Context, method, path string, body any) (*http.Response, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://agent"+path, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	response, err := c.http.Do(request)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("%s: %w", c.socket, ErrNoAgent)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%s: %w", c.socket, ErrRefused)
	case err != nil:
		return nil, fmt.Errorf("agent at %s: %w", c.socket, err)
	case response.StatusCode < http.StatusMultipleChoices:
		return response, nil
	}
	defer func() { _ = response.Body.Close() }()
	var failure Failure
	_ = json.NewDecoder(response.Body).Decode(&failure) // the status says enough
	if failure.Error == "" {
		failure.Error = fmt.Sprintf("agent at %s: %s", c.socket, response.Status)
	}
	return nil, &Error{Status: response.StatusCode, Message: failure.Error}
}
