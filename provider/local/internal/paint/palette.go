package paint

// palette is a set of colours that belong together. Landscapes take sky, sun,
// far and near; everything else takes paper, ink and the accents.
type palette struct {
	name    string
	sky     [4]uint32 // zenith to horizon
	sun     uint32    // sun or moon
	far     uint32    // the most distant ridge
	near    uint32    // the closest one
	paper   uint32
	ink     uint32
	accents [6]uint32 // from the quietest to the one that is used least
}

var palettes = []palette{
	{
		name: "ember",
		sky:  [4]uint32{0x2b1b45, 0x8c2f56, 0xe8674a, 0xffc36b}, sun: 0xfff0c2,
		far: 0xd9775a, near: 0x1f1029, paper: 0xfbf1e3, ink: 0x2a1420,
		accents: [6]uint32{0x7a1f3d, 0xc8372d, 0xe8703a, 0xf2a541, 0xf8dca0, 0x2f4b6e},
	},
	{
		name: "tide",
		sky:  [4]uint32{0x1d4f7c, 0x4d93b8, 0xa6d3d4, 0xfbe6c4}, sun: 0xfffbe8,
		far: 0x8fb9c4, near: 0x0b2a3f, paper: 0xf6f4ea, ink: 0x0f2c40,
		accents: [6]uint32{0x0f4c6b, 0x1f7a8c, 0x58a6a6, 0xa8d0c6, 0xf0d9a8, 0xe4694c},
	},
	{
		name: "moss",
		sky:  [4]uint32{0x55806f, 0x9dbb97, 0xdbe0b4, 0xfdf3d0}, sun: 0xfffbe6,
		far: 0xa3bc98, near: 0x14261c, paper: 0xf7f3e4, ink: 0x1c2b20,
		accents: [6]uint32{0x1f4631, 0x3f7048, 0x7d9c57, 0xbcbf6e, 0xe6d9a2, 0xc2582f},
	},
	{
		name: "midnight",
		sky:  [4]uint32{0x050a1f, 0x0d1b44, 0x233a70, 0x5b6ba3}, sun: 0xf4eed8,
		far: 0x35477e, near: 0x050813, paper: 0x0e1530, ink: 0xe9e4d2,
		accents: [6]uint32{0x274b8f, 0x3f7fb5, 0x6fb7c9, 0x8a6fc0, 0xe8d9a0, 0xf08a5d},
	},
	{
		name: "blossom",
		sky:  [4]uint32{0x8e8fc4, 0xcfa9cd, 0xf5c4c6, 0xffecd9}, sun: 0xfffaf0,
		far: 0xd1a7c0, near: 0x3c2748, paper: 0xfdf5f0, ink: 0x3a2340,
		accents: [6]uint32{0x6b3f73, 0xb7588a, 0xe88ba3, 0xf6c1b5, 0xf9e3c4, 0x5b8f7b},
	},
	{
		name: "frost",
		sky:  [4]uint32{0x5b7fa8, 0x95b3d0, 0xcddde8, 0xf7f4ef}, sun: 0xffffff,
		far: 0xb3c8da, near: 0x22354c, paper: 0xf5f7f8, ink: 0x1d2f45,
		accents: [6]uint32{0x27476b, 0x4f7ca5, 0x8fb4cf, 0xc4d9e4, 0xe7e3d6, 0xd0565b},
	},
	{
		name: "saffron",
		sky:  [4]uint32{0x3f6f8f, 0x93b3ae, 0xf0cf92, 0xf7a85a}, sun: 0xfff3cf,
		far: 0xdda468, near: 0x46201a, paper: 0xfaf3e2, ink: 0x3b1f17,
		accents: [6]uint32{0x7d3421, 0xbf5a2a, 0xe09a3e, 0xf0c66c, 0xf5e4b8, 0x2b7a78},
	},
	{
		name: "violet",
		sky:  [4]uint32{0x191138, 0x4a2a72, 0xa14f94, 0xf39a96}, sun: 0xffe3cc,
		far: 0x9d5b97, near: 0x130c28, paper: 0xf7f1f5, ink: 0x221437,
		accents: [6]uint32{0x35246b, 0x6c3d9a, 0xb457a6, 0xee8d94, 0xf9cfa9, 0x39a0a0},
	},
}

// colours is a palette made ready for painting.
type colours struct {
	sky, sun, far, near rgb // sky: the horizon
	halo                rgb // what the sun or moon makes of the air and land around it
	air                 ramp
	paper, ink          rgb
	accents             [6]rgb
	all                 ramp // the first five accents as a gradient
	dark                bool // light ink on dark paper
}

func (p palette) mixed() colours {
	c := colours{
		sky: hex(p.sky[3]), sun: hex(p.sun), far: hex(p.far), near: hex(p.near),
		paper: hex(p.paper), ink: hex(p.ink),
		air: newRamp(hex(p.sky[0]), hex(p.sky[1]), hex(p.sky[2]), hex(p.sky[3])),
	}
	for i, a := range p.accents {
		c.accents[i] = hex(a)
	}
	c.all = newRamp(c.accents[:5]...)
	c.dark = c.ink.luminance() > c.paper.luminance()
	c.halo = c.sun
	if c.dark {
		c.halo = c.sky.mix(c.sun, 0.3)
	}
	return c
}
