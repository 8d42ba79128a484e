// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/wayleave/wayleave/tools/cluster/internal/measure"
)

// write sends one request to the API server, with a body from standard input, over a connection
// that is open before.
func write(ctx context.Context, args []string) (measure.Write, error) {
	var result measure.Write
	flags := newFlags("write FLAGS METHOD PATH")
	server := flags.String("server", "", "`URL` of the API server")
	ca := flags.String("ca", "", "`file` with the certificate of its authority")
	token := flags.String("token", "", "`token` of the user")
	if err := flags.Parse(args); err != nil {
		return result, err
	}
	if flags.NArg() != 2 {
		return result, fmt.Errorf("write: needs a METHOD and a PATH")
	}
	certificate, err := os.ReadFile(*ca)
	if err != nil {
		return result, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(certificate) {
		return result, fmt.Errorf("write: %s has no certificate", *ca)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	send := func(method, path string, body io.Reader) error {
		request, err := http.NewRequestWithContext(ctx, method, *server+path, body)
		if err != nil {
			return err
		}
		request.Header.Set("Authorization", "Bearer "+*token)
		request.Header.Set("Content-Type", "application/json")
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err == nil && response.StatusCode >= http.StatusMultipleChoices {
			err = fmt.Errorf("%s %s: %s: %.200s", method, path, response.Status, text)
		}
		return err
	}
	if err := send(http.MethodGet, "/version", nil); err != nil {
		return result, err
	}
	result.Sent = time.Now()
	err = send(flags.Arg(0), flags.Arg(1), os.Stdin)
	result.Answered = time.Now()
	return result, err
}
