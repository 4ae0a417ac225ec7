"""Compatible APIs of Automattic's Kue and Vert.x Kue, for existing programs."""
