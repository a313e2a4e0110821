//! Given names that are common somewhere, and little else. What stands behind one, with a capital, is a surname: see [`super::name`].
//!
//! Names that are also words, months, places, tools or models (Will, May, Charlotte, Julia, Claude) are left out, and so are those that
//! are surnames of as many: they would be found where nobody is meant.

use super::cue::Short;
use std::collections::HashSet;
use std::hash::BuildHasherDefault;
use std::sync::OnceLock;

const GIVEN: &str = "\
    Aaron Abigail Adam Adrian Adriana Agnes Aidan Aiden Alan Alastair Albert Alberto Alejandra Alejandro Alessandra \
    Alessandro Alex Alexander Alexandra Alexandre Alexandru Alexei Alexey Alfonso Alfred Alfredo Alice Alicia Alina Aline \
    Alison Allison Alyssa Amanda Amelia Amina Amir Amit Amy Amélie Ana Anastasia Anders Andrea Andreas Andreea Andrei Andrej \
    Andrew Andrey Andrzej Andrés Angela Angelica Angelika Angelina Anil Anita Anja Anjali Anke Ann Anna Annabelle Anne \
    Annette Annie Annika Anthony Antoine Anton Antonella Antonia Antonio António Anya Arjun Armando Arnaud Arnold Arthur \
    Arturo Ashley Ashok Asif Astrid Audrey Augusto Aurélie Ayesha Ayşe Barbara Beata Beatrice Beatriz Belinda Benjamin \
    Benoît Bernadette Bernard Bernardo Bernd Bernhard Bertha Beth Bethany Betty Beverly Bianca Birgit Bjarne Björn Bogdan \
    Bohdan Boris Brandon Brenda Brendan Brian Bridget Brigitte Britta Bruna Bryan Caitlin Camila Camille Candice Carina \
    Carla Carlos Carmen Carol Carole Caroline Carolyn Carsten Catalina Catarina Catherine Cathy Cecilia Cesar Chantal \
    Charles Charlie Cheryl Chiara Chloe Chloé Chris Christa Christiane Christina Christine Christof Christoph Christophe \
    Christopher Cindy Clarissa Claudia Claudio Clemens Clément Colleen Connie Connor Constantin Corinne Cornelia Cristian \
    Cristina Cynthia Cyril Cécile Céline César Dagmar Daisuke Damian Damien Dana Daniel Daniela Daniele Danielle Danuta \
    Daphne Dariusz Darren David Deborah Debra Deepak Denise Dennis Derek Desmond Diana Diane Didier Dieter Dimitri Dimitrios \
    Dimitris Dina Dinesh Dirk Dmitri Dmitry Dominik Dominika Dominique Donald Donna Doris Dorota Dorothea Dorothy Douglas \
    Duncan Dylan Edith Edmund Eduard Eduardo Edward Edwin Eileen Ekaterina Elaine Elena Eleni Eleonora Elias Elif Elisa \
    Elisabeth Elizabeth Elke Ella Ellen Elodie Elsa Elvira Emanuele Emil Emilia Emilie Emilio Emily Emma Emmanuel Emre \
    Enrico Enrique Erica Erich Erik Erika Erin Ernest Ernesto Esteban Estelle Esther Eszter Etienne Eugene Eugenia Eva \
    Evelyn Ewa Fabian Fabien Fabienne Fabio Fabrice Fabrizio Fatima Fatma Federica Federico Felicity Felipe Felix Ferenc \
    Fernanda Fernando Filip Filippo Fiona Florian Franca Frances Francesca Francesco Francis Francisca Francisco Franck \
    Frank Franz François Françoise Fred Freddy Frederic Frederick Fredrik Frieda Friedrich Fritz Frédéric Gabor Gabriel \
    Gabriela Gabriele Gabriella Gabrielle Gareth Gary Gemma Geoffrey George Georges Georgina Gerald Geraldine Gerardo \
    Gerhard Gert Gertrude Giacomo Gianluca Gianni Gillian Gina Giorgio Giorgos Giovanna Giovanni Gisela Giulia Giuliana \
    Giuseppe Gloria Gonzalo Goran Gordon Grażyna Greg Gregor Gregory Grzegorz Guido Guillaume Guillermo Gunnar Gustavo \
    György Gábor Gérard Günter Günther Hannah Hannes Hans Harald Harold Harriet Harry Hasan Heather Hector Heidi Heike \
    Heinrich Heinz Helen Helena Helene Helga Helmut Hendrik Henri Henrik Henry Herbert Hermann Hilary Hilda Hiroshi Holger \
    Horst Howard Hubert Hugh Hugo Håkan Héctor Hélène Ian Ibrahim Ignacio Igor Ilaria Ildikó Ilona Imran Ines Inga Ingeborg \
    Ingrid Inês Ioana Irena Irene Irina Irma Isaac Isabel Isabella Isabelle Ismail István Ivan Ivana Ivo Jackie Jacob \
    Jacqueline Jacques Jaime Jakob Jakub James Jamie Jana Jane Janet Janice Janina Jarosław Jason Javier Jean Jeanette \
    Jeanne Jeff Jeffrey Jelena Jennifer Jenny Jens Jeremy Jerome Jerry Jessica Jesús Jill Jim Jiří Joachim Joan Joana Joanna \
    Joanne Joaquín Jochen Joel Johan Johann Johanna Johannes John Johnny Jonas Jonathan Jorge Josef Josefina Joseph \
    Josephine Joshua José João Juan Juana Judith Judy Jukka Julian Juliane Julie Julien Juliet Juliette Julio Jussi Justin \
    Justine Justyna Jérôme Jörg Jürgen Kaan Kamil Karel Karen Karin Karina Karl Karla Karolina Karsten Katarina Katarzyna \
    Kate Kateřina Katharina Katherine Kathleen Kathrin Kathryn Kathy Katie Katja Katrin Kazuo Keith Kelly Kenji Kenneth \
    Kerstin Kevin Khaled Kimberly Kirsten Klaus Konrad Konstantin Kristen Kristian Kristin Kristina Kristóf Krystyna \
    Krzysztof Kurt Kyle Lajos Lakshmi Lara Larissa Larry Lars Laszlo Laura Lauren Laurence Laurent Lea Leah Leif Leila Lena \
    Lennart Leonard Leonardo Leonie Leonor Leopold Leslie Leticia Liam Lidia Lieselotte Ligia Lillian Lina Linda Lindsay \
    Lisa Lisbeth Livia Lois Lorena Lorenzo Loretta Lori Lothar Louis Louisa Louise Luca Lucas Lucia Luciana Luciano Lucie \
    Lucy Lucía Ludmila Ludwig Luigi Luis Luisa Luiz Lukas Luke Lukáš Luís Lydia Lynn László Maarten Magdalena Maggie Magnus \
    Mahmoud Maja Malgorzata Manfred Manon Manuel Manuela Marc Marcel Marcela Marcelo Marcin Marco Marcos Marcus Marek \
    Margaret Margarita Margit Margot Maria Marian Mariana Marianne Marie Mariella Marija Marilyn Marina Mario Marion Marisa \
    Marisol Marjorie Marko Markus Marta Martha Martin Martina Martín Mary Maryam María Masahiro Mateusz Mathias Mathieu \
    Mathilde Mats Matteo Matthew Matthias Matthieu Maureen Maurice Mauricio Maurizio Maximilian Maya Małgorzata Mehmet \
    Melanie Melinda Melissa Meredith Michael Michał Michel Michela Michele Michelle Michèle Miguel Mihai Mika Mikael Mike \
    Mikhail Mikko Milena Milica Miloš Miriam Mirjam Miroslav Mitchell Mohamed Mohammad Mohammed Moira Monica Monika Monique \
    Muhammad Muriel Murray Mustafa Mélanie Mónica Nadia Nadine Nancy Naomi Natalia Natalie Natasha Nathalie Nathan Nathaniel \
    Neil Nicholas Nick Nicola Nicolas Nicole Nicolás Niels Nigel Nikhil Nikita Nikola Nikolai Nikolaos Nikolaus Nils Nina \
    Noah Noelle Nora Norbert Norman Noémie Nuno Octavia Odile Ole Oleg Oleksandr Olga Oliver Olivia Olivier Omar Oskar Osman \
    Oswald Pablo Paola Paolo Pascale Patrice Patricia Patricio Patrick Patrik Paul Paula Pauline Paulo Pavel Paweł Pedro \
    Penelope Peter Petr Petra Petri Philip Philipp Philippa Philippe Phillip Phyllis Pia Pierre Pieter Pietro Piotr Prakash \
    Pranav Pratik Priya Rachel Rafael Rafał Rahul Raimund Rainer Raj Rajesh Ralf Ralph Ramona Ramón Raphael Raquel Raul Ravi \
    Raymond Raúl Rebecca Reiner Reinhard Remy Renata Renate Renato René Renée Ricardo Riccardo Richard Rita Robert Roberta \
    Roberto Robin Rodney Rodolfo Rodrigo Roland Rolf Romain Ronald Ronnie Rosa Rosalie Rosalind Rosario Rosemary Rosie \
    Roxana Roy Ruben Rubén Rudolf Rupert Ruth Ryan Régis Rémi Sabine Sabrina Sally Salvatore Samantha Sami Samir Samuel \
    Sandra Sandro Sandy Sanjay Sara Sarah Sascha Satoshi Saverio Scott Sean Sebastian Serena Serge Sergei Sergey Sergio \
    Shannon Sharon Sheila Shelley Shinji Shirley Sigrid Silke Silvana Silvia Simon Simona Simone Siobhan Slobodan Sofie \
    Sofía Solange Sonia Sonja Sophia Sophie Stacey Stanisław Stanley Stefan Stefania Stefanie Stefano Steffen Stephan \
    Stephane Stephanie Stephen Steve Steven Stuart Stéphane Stéphanie Sunil Suresh Susan Susana Susanna Susanne Suzanne \
    Svein Sven Svetlana Sylvain Sylvia Sylvie Sébastien Sérgio Søren Tadeusz Takashi Tamara Tamás Tania Tanja Tanya Tara \
    Tatiana Tatyana Ted Terence Teresa Teresita Terry Tessa Thelma Theodor Theodore Theresa Thibault Thierry Thomas Thorsten \
    Thérèse Tiina Tim Timo Timothy Tina Tobias Todd Tom Tomas Tomasz Tommaso Tommy Tomás Tomáš Toni Tony Tore Torsten Tracy \
    Trevor Tristan Tuomas Ulrich Ulrike Ursula Uwe Vadim Valentina Valeria Valerie Valérie Vanessa Vasile Vera Verena \
    Veronica Veronika Verónica Vicente Vicky Victor Vijay Viktor Viktoria Vincent Vincenzo Violeta Virginie Vito Vittorio \
    Vivian Viviana Vladimir Vojtěch Volker Véronique Víctor Walter Waltraud Wanda Wayne Wendy Werner Wilhelm Willem William \
    Winfried Wojciech Wolfgang Xavier Ximena Yannick Yasmin Yolanda Yosef Youssef Yuki Yuri Yusuf Yves Yvette Yvonne Zachary \
    Zahra Zbigniew Zdeněk Zofia Zoltán Zoé Zoë Zsolt Zsófia Zuzana Ágnes Álvaro Åsa Åse Çağlar Élise Éloïse Émilie Étienne \
    Örjan Özlem Łukasz Şebnem Žaneta Željko";

/// Words behind a given name that make it something else: a street, a house, a firm, a prize.
const NO_SURNAMES: &str = "Street St Avenue Ave Road Rd Lane Drive Boulevard Blvd Court Place Square Way Hall House Building Tower Center Centre \
    Bridge Park Garden Gardens Beach Bay Bar Lake River Island Islands Hill Hills Mountain Valley County City Town Village Airport Station Port \
    University College School Institute Academy Library Museum Theatre Theater Church Cathedral Hospital Clinic Hotel Inn Restaurant Cafe Café Bakery \
    Foundation Fund Trust Bank Group Company Co Inc Ltd LLC Corp Corporation GmbH AG SA Records Media Studio Studios Award Awards Prize Medal Cup Open \
    Day Week Show Theorem Law Rule Test Effect Number Method Algorithm Model Equation Line Code Database API Server Bot";

/// Words before a given name that make it a place: San Francisco, Saint Martin.
const PLACES: &str = "San Santa Santo São St Saint Sankt Fort Port Lake Mount Cape Isle";

/// The longest of these names, in bytes.
const LEN_MAX: usize = 11;

/// Whether this word is a given name, written as one.
pub(super) fn is_given(word: &[u8]) -> bool {
    let Some(&first) = word.first() else { return false };
    (first.is_ascii_uppercase() || first >= 0x80) && word.len() <= LEN_MAX && table().contains(word)
}

/// Whether this word, behind a given name, is a surname for all that is known.
pub(super) fn may_be_surname(word: &str) -> bool {
    !NO_SURNAMES.split_ascii_whitespace().any(|known| known == word)
}

/// Whether this word, before a given name, makes it a place.
pub(super) fn makes_place(word: &str) -> bool {
    PLACES.split_ascii_whitespace().any(|known| known == word)
}

fn table() -> &'static HashSet<&'static [u8], BuildHasherDefault<Short>> {
    static TABLE: OnceLock<HashSet<&'static [u8], BuildHasherDefault<Short>>> = OnceLock::new();
    TABLE.get_or_init(|| GIVEN.split_whitespace().map(str::as_bytes).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_again_and_stands_once() {
        let names: Vec<&str> = GIVEN.split_whitespace().collect();
        let longest = names.iter().map(|name| name.len()).max();
        assert_eq!((longest, table().len()), (Some(LEN_MAX), names.len()));
        assert!(names.iter().all(|name| is_given(name.as_bytes())));
        assert!(!is_given(b"john") && !is_given(b"JOHN") && !is_given(b"May") && !is_given(b""));
    }
}
