// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
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

// del removes all of a container. That there is none is no error.
func del(args *skel.CmdArgs) error {
	c, k, err := read(args)
	if err != nil {
		return err
	}
	return c.undo(args, k)
}

// also returns an error with what went wrong in undoing, if anything did. Alone it keeps its code.
func also(err *types.Error, undoing error) error {
	if undoing != nil {
		err.Details += "; and then: " + undoing.Error()
	}
	return err
}

// patience is how long the agent may take: a little less than the time there is, so that it can say what it waits for.
func (c *config) patience() time.Duration { return c.timeout * 9 / 10 }

// undo removes all that add makes: first what was registered, so that the agent forgets the container while its interface
// is still known and drops what is not the container's; then the link; last the address, which may be another's at once.
//
// Where the pod has been added anew, in another sandbox, the registration and the link are that one's: it has another MAC address.
func (c *config) undo(args *skel.CmdArgs, k policy.Key) error {
	anew, err := c.unregister(k, mac(args).String())
	if err != nil {
		return types.NewError(types.ErrTryAgainLater, "the container is still in the kernel", err.Error())
	}
	if anew {
		return c.release(args)
	}
	return c.disconnect(args, k)
}

// disconnect removes the link and gives the addresses back.
func (c *config) disconnect(args *skel.CmdArgs, k policy.Key) error {
	if err := disconnect(c.hostInterface(k)); err != nil {
		return types.NewError(types.ErrIOFailure, "cannot remove the container's link", err.Error())
	}
	return c.release(args)
}

// unregister has the agent forget an endpoint, and returns once it is out of the kernel. It reports whether there is another of that
// name, which stays.
//
// Where no agent runs it takes the file of the endpoint away, so that the next one does not know it: that takes it
// out of the kernel before it programs anything new. An agent that has started in between is asked.
func (c *config) unregister(k policy.Key, mac string) (anew bool, err error) {
	anew, err = c.ask(k, mac)
	if !errors.Is(err, api.ErrNoAgent) {
		return anew, err
	}
	if anew, err = c.removeFile(k, mac); err != nil || anew {
		return anew, err
	}
	if anew, err = c.ask(k, mac); errors.Is(err, api.ErrNoAgent) {
		return false, nil
	}
	return anew, err
}

func (c *config) ask(k policy.Key, mac string) (anew bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	where := registration(k) + "&" + url.Values{"mac": {mac}, "timeout": {c.patience().String()}}.Encode()
	r, err := api.Send[api.Registered](ctx, api.NewClient(c.Socket), http.MethodDelete, where, nil)
	return r.Endpoint != nil, err
}

// removeFile removes the file of a registered endpoint, unless it is another's. That there is none is no error.
func (c *config) removeFile(k policy.Key, mac string) (anew bool, err error) {
	path := filepath.Join(c.EndpointDir, api.RegistrationFile(k))
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	}
	resource, _ := policy.Decode(data) // what makes no sense is nobody's
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

// release gives addresses back.
func (c *config) release(args *skel.CmdArgs) error {
	if c.IPAM.Type == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	return invoke.DelegateDel(ctx, c.IPAM.Type, args.StdinData, nil)
}

// registration is where the agent tells of a registered endpoint.
func registration(k policy.Key) string {
	return "/v1/registry?" + url.Values{"namespace": {k.Namespace}, "name": {k.Name}}.Encode()
}
