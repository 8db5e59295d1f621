"""Real lease tables under attack: are their rows compare-and-set registers, whatever happens?"""
