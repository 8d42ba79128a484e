// SPDX-License-Identifier: Apache-2.0

package ruleset

// parseFlowtable reads a flowtable.
func parseFlowtable(p *parser) *Flowtable {
	p.next()
	f := &Flowtable{Name: p.name("flowtable")}
	p.block(func() {
		switch word := p.tok; {
		case p.accept("hook"):
			p.want("ingress")
			p.want("priority")
			f.Priority = p.priority()
		case p.accept("devices"):
			p.want("=")
			f.Devices = append(f.Devices, parseDevices(p)...)
		default:
			p.fail(word, "a flowtable of the model has no such property")
		}
	})
	return f
}

// parseDevices reads names of interfaces in braces. nft 1.1 lists them in quotation marks.
func parseDevices(p *parser) (names []string) {
	p.want("{")
	for !p.accept("}") {
		at := p.tok
		if at.kind != tokenString {
			p.word("the name of an interface")
		} else {
			p.next()
		}
		if p.err == nil && !ValidIfname(at.text) {
			p.fail(at, "not the name of an interface")
		}
		names = append(names, at.text)
		if !p.accept(",") && !p.is("}") {
			p.fail(p.tok, `want "," or "}"`)
			return nil
		}
	}
	return names
}
