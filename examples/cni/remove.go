// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"

	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/policy"
)

// del removes a container. It is not an error if the container does not exist.
func del(args *skel.CmdArgs) error {
	c, k, err := read(args)
	if err != nil {
		return err
	}
	return c.undo(args, k)
}

// also adds the error of undo to an error. If undoing is nil, it returns the error unchanged, with
// its code.
func also(err *types.Error, undoing error) error {
	if undoing != nil {
		err.Details += "; and then: " + undoing.Error()
	}
	return err
}

// requestTimeout is the timeout of a request to the agent. It is a little shorter than the plugin's
// timeout, so that the agent can still return the reason.
func (c *config) requestTimeout() time.Duration { return c.timeout * 9 / 10 }

// undo removes everything that add makes, in this order:
//
//  1. The registration. The agent removes the endpoint, and drops all packets of its interface.
//  2. The link.
//  3. The address, which another container may get at once.
//
// If the pod was added again, in another sandbox, the registration and the link belong to the other
// sandbox and stay. The other sandbox has another MAC address.
func (c *config) undo(args *skel.CmdArgs, k container) error {
	newer, err := c.unregister(k, mac(args).String())
	if err != nil {
		return types.NewError(types.ErrTryAgainLater, "the container may still be in the kernel", err.Error())
	}
	if newer {
		return c.release(args)
	}
	return c.disconnect(args, k)
}

// disconnect removes the container's link, and releases its addresses.
func (c *config) disconnect(args *skel.CmdArgs, k container) error {
	if err := disconnect(c.hostInterface(k), mac(args)); err != nil {
		return types.NewError(types.ErrIOFailure, "cannot remove the container's link", err.Error())
	}
	return c.release(args)
}

// unregister removes an endpoint from the agent, and returns once it is removed from the kernel.
// newer means that another sandbox of the same pod is registered. That registration stays.
//
// If no agent runs, unregister removes the file of the endpoint. Then the next agent does not have
// the endpoint, and removes it from the kernel before it programs anything new. While unregister
// removes the file, it holds the lock of the agent's socket, so that no agent can start.
func (c *config) unregister(k container, mac string) (newer bool, err error) {
	newer, err = c.requestRemoval(k, mac)
	if !errors.Is(err, api.ErrNoAgent) {
		return newer, c.explain(err)
	}
	lock, err := api.Lock(c.Socket)
	if errors.Is(err, api.ErrRunning) {
		return false, fmt.Errorf(
			"%w, but does not listen: it is starting; if not, its socket was removed and it needs a restart", err,
		)
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = lock.Close() }() // otherwise the system releases the lock when the process ends
	return c.removeFile(k, mac)
}

// explain rewrites the error of a request: it names fields of the network configuration instead of
// the agent's flags.
func (c *config) explain(err error) error {
	switch {
	case errors.Is(err, api.ErrNoAgent):
		return fmt.Errorf("no agent is running there: start one with 'agent run', or set socket in the network "+
			"configuration, which is %s", c.Socket)
	case errors.Is(err, api.ErrRefused):
		return fmt.Errorf("only root and the user of the agent may connect to %s: run the container runtime as one of "+
			"them", c.Socket)
	case errors.Is(err, api.ErrNoAnswer), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer from the agent at %s within %s: it is stopped (SIGSTOP, a frozen cgroup) or "+
			"busy. Resume or restart it, or raise timeout in the network configuration", c.Socket, c.Timeout)
	}
	return err
}

func (c *config) requestRemoval(k container, mac string) (newer bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	q := k.parameters(url.Values{"mac": {mac}, "timeout": {c.requestTimeout().String()}})
	where := registration(k.Key) + "&" + q.Encode()
	r, err := api.Send[api.Registered](ctx, api.NewClient(c.Socket), http.MethodDelete, where, nil)
	return r.Endpoint != nil, err
}

// removeFile removes the file of a registered endpoint, unless another container is registered
// there. It is not an error if the file does not exist.
func (c *config) removeFile(k container, mac string) (newer bool, err error) {
	path := filepath.Join(c.EndpointDir, api.RegistrationFile(k.Key))
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	}
	resource, _ := policy.Decode(data) // an invalid file belongs to no endpoint
	if e, ok := resource.(*policy.WorkloadEndpoint); ok && e.MAC != mac {
		return true, nil
	}
	if err := os.Remove(path); err != nil {
		return false, err
	}
	dir, err := os.Open(c.EndpointDir)
	if err != nil {
		return false, err
	}
	return false, errors.Join(dir.Sync(), dir.Close())
}

// release returns the addresses to the ipam plugin.
func (c *config) release(args *skel.CmdArgs) error {
	if c.IPAM.Type == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	return invoke.DelegateDel(ctx, c.IPAM.Type, args.StdinData, nil)
}

// registration returns the path of a registered endpoint in the agent's API.
func registration(k policy.Key) string {
	return "/v1/registry?" + url.Values{"namespace": {k.Namespace}, "name": {k.Name}}.Encode()
}
